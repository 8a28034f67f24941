// What a writer does to a Zarr store: it finds the array a folder that nobody else has, locks it against other runs,
// puts a new array where an older one was, and keeps the metadata of the groups above it true. By one rank: nothing
// here is collective. Opt-in: needs nlohmann-json.
#pragma once

#include <map>

#include "halogen/io/zarr/zarr_layout.hpp"

namespace halogen::detail {

/// A fill value as the metadata of version 3 spell it.
template <class T>
Json zarr_spelled(T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
  return value;
}

/// Attributes of an array of T as xarray spells and reads them: `_FillValue` of floats in base64, both marks of missing
/// points as numbers of T. std::runtime_error where they are none.
template <class T>
Json zarr_attributes(const Json& given) {
  cf_numbers(given, stored_type<T>());
  Json all = given;
  for (auto& item : all.items()) {
    if (!marks_missing(item.key())) continue;
    const std::vector<T> numbers = missing_as<T>(item.key(), item.value());
    if (item.key() == "_FillValue" && std::is_floating_point_v<T>)
      item.value() = base64_of(static_cast<double>(numbers[0]));
    else
      item.value() = numbers.size() == 1 ? Json(numbers[0]) : Json(numbers);
  }
  return all;
}

/// std::runtime_error unless the name is that of an array below its store.
inline void require_zarr_name(const std::string& name) {
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    if (end == at || name[at] == '.' || name.substr(at, end - at) == "zarr.json")
      throw std::runtime_error("'" + name +
                               "' is no name of an array in a store: give words with slashes between them, of which "
                               "none is empty, begins with a dot or is zarr.json");
    at = end + 1;
  }
}

inline constexpr const char* zarr_partial =
    ".partial";  ///< in an array's folder: what takes its place when it is whole

enum class ZarrNode { none, group, array };

inline Json zarr_json_of(const fs::path& folder) {
  return parse_zarr_json(text_in(folder / "zarr.json", longest_zarr_json));
}

/// What a folder is, by its metadata. Of version 2: a store that is consolidated is a group.
inline ZarrNode zarr_node(const fs::path& folder) {
  const auto has = [&](const char* name) {
    std::error_code none;
    return fs::is_regular_file(folder / name, none);
  };
  if (has("zarr.json"))
    return zarr_json_of(folder).value("node_type", "") == "array" ? ZarrNode::array : ZarrNode::group;
  if (has(".zarray")) return ZarrNode::array;
  return has(".zgroup") || has(".zmetadata") ? ZarrNode::group : ZarrNode::none;
}

/// Changes a group's metadata, which other runs may change too: one after the other. change(json): whether it did.
template <class Change>
void change_group(const fs::path& folder, Change change) {
  const fs::path file = folder / "zarr.json";
  Replacement replacement(file);  // waits for another's
  Json group{{"zarr_format", 3}, {"node_type", "group"}, {"attributes", Json::object()}};
  const bool is_new = !fs::exists(file);
  if (!is_new) group = zarr_json_of(folder);
  if (!change(group) && !is_new) return;
  const std::string text = json_text(group, 2) + "\n";
  replacement.file().write(text.data(), text.size(), 0);
  replacement.take_name();
}

/// The metadata of all nodes below a group, by their names. A folder that is a link is no group of this store.
inline void collect_zarr_nodes(const fs::path& folder, const std::string& before, std::map<std::string, Json>& all) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string part = entry.path().filename().string();
    std::error_code none;
    if (part.starts_with('.') || !fs::is_regular_file(entry.path() / "zarr.json", none)) continue;
    Json node;
    try {
      node = zarr_json_of(entry.path());
      node.erase("consolidated_metadata");
    } catch (const std::exception&) {  // damaged, and no business of who writes another array
      continue;
    }
    const bool is_group = node.value("node_type", "") == "group";
    if (is_group && entry.is_symlink()) continue;
    all[before + part] = std::move(node);
    if (is_group) collect_zarr_nodes(entry.path(), before + part + "/", all);
  }
}

/// The folder of an array in a store, locked from the first look at it on: another run that would write it is refused.
/// What the folder holds stays as it was until publish().
class ZarrFolder {
 public:
  /// std::runtime_error: a name that leads elsewhere, a folder that holds something else, another run that writes it.
  ZarrFolder(const fs::path& store, const std::string& name) : store_(store), name_(name), path_(store / name) {
    if (store.empty()) throw std::runtime_error("the path of its store is empty: give a folder");
    require_zarr_name(name);
    for (const auto& [group, below] : groups()) refuse_other_groups(group);
    refuse_other_folders();
    fs::create_directories(path_);
    lock();
    refuse_other_folders();
    fs::remove_all(partial());
    fs::remove_all(removed());
  }
  ZarrFolder(const ZarrFolder&) = delete;
  ZarrFolder& operator=(const ZarrFolder&) = delete;
  /// What is not published goes.
  ~ZarrFolder() {
    std::error_code none;
    fs::remove_all(partial(), none);
    fs::remove(path_ / ".lock", none);
    ::rmdir(path_.c_str());  // where it is empty, and no link
  }

  /// Where chunks are written that take their place by publish().
  fs::path partial() const { return path_ / zarr_partial; }

  /// Puts an array with these metadata, and the chunks of partial(), where another one may have been.
  void publish(const Json& array) {
    fs::create_directories(partial());
    write_json(partial() / "zarr.json", array);
    for (const auto& [group, below] : groups()) change_group(group, [](Json&) { return false; });
    for_each_list([&](Json& nodes, const std::string& below) { return nodes.erase(below) > 0; });
    fs::create_directories(removed());
    if (fs::exists(path_ / "zarr.json")) fs::rename(path_ / "zarr.json", removed() / "zarr.json");  // no array yet
    for (const fs::path& old : own_entries()) fs::rename(old, removed() / old.filename());
    if (fs::exists(partial() / "c")) fs::rename(partial() / "c", path_ / "c");
    fs::rename(partial() / "zarr.json", path_ / "zarr.json");
    for_each_list([&](Json& nodes, const std::string& below) { return nodes[below] = array, true; });
    fs::remove_all(partial());
    fs::remove_all(removed());
  }

 private:
  fs::path removed() const { return path_ / ".removed"; }

  /// The store and the groups between it and the array, and the array's name in each.
  std::vector<std::pair<fs::path, std::string>> groups() const {
    std::vector<std::pair<fs::path, std::string>> all{{store_, name_}};
    for (std::size_t slash = name_.find('/'); slash != std::string::npos; slash = name_.find('/', slash + 1))
      all.emplace_back(store_ / name_.substr(0, slash), name_.substr(slash + 1));
    return all;
  }

  static void refuse_other_groups(const fs::path& group) {
    const auto refuse = [&](const char* what) { throw std::runtime_error("'" + group.string() + "' " + what); };
    for (const char* name : {".zgroup", ".zmetadata"})
      if (fs::exists(group / name))
        refuse(
            "is of Zarr's version 2, and arrays are written in version 3, which readers of that store would not see: "
            "give another store");
    if (zarr_node(group) == ZarrNode::array) refuse("is an array, which holds no others: give another name");
  }

  void refuse_other_folders() const {
    const auto refuse = [&](const char* what) { throw std::runtime_error("'" + path_.string() + "' " + what); };
    if (!fs::exists(path_)) return;
    if (!fs::is_directory(path_))
      refuse("is no folder, and an array of Zarr is one: remove it, or give the array another name");
    const ZarrNode node = zarr_node(path_);
    if (node == ZarrNode::group) refuse("is a group, which may hold arrays: give the array another name");
    if (node == ZarrNode::array) return;
    bool is_left_over = false, has_others = false;  // of a run that was killed
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      const std::string part = entry.path().filename().string();
      is_left_over = is_left_over || part == ".partial" || part == ".removed";
      has_others = has_others || !(part == ".partial" || part == ".removed" || part == ".lock" || part == "c");
    }
    if (has_others || (fs::exists(path_ / "c") && !is_left_over))
      refuse("is a folder with something else than an array: remove it, or give the array another name");
  }

  void lock() {
    const fs::path name = path_ / ".lock";
    for (;;) {  // the one who had it takes it away
      lock_.emplace(name, O_RDWR | O_CREAT);
      const bool is_locked = lock_->try_lock();
      if (!is_locked && errno == EWOULDBLOCK)
        throw std::runtime_error("another run, or a ZarrSeries of this one, writes it: give this one another name");
      if (!is_locked || lock_->is_at(name)) return;
    }
  }

  /// What the folder holds of an array, of either version: its metadata and its chunks, and nothing else.
  std::vector<fs::path> own_entries() const {
    std::vector<fs::path> all;
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      const std::string part = entry.path().filename().string();
      if (part == "zarr.json" || part == ".zarray" || part == ".zattrs" || part == "c" ||
          part.find_first_not_of("0123456789.") == std::string::npos)
        all.push_back(entry.path());
    }
    return all;
  }

  /// Calls change(nodes, the array's name there), which says whether it did, for each list of consolidated metadata
  /// that the array belongs to. The store has one afterwards.
  template <class Change>
  void for_each_list(Change change) const {
    const auto of_group = [&](const fs::path& folder, const std::string& below, bool is_store) {
      if (!is_store && !zarr_json_of(folder).contains("consolidated_metadata")) return;
      change_group(folder, [&](Json& group) {
        const auto found = group.find("consolidated_metadata");
        if (found != group.end() && found->is_object() && found->contains("metadata")) {
          Json& nodes = (*found)["metadata"];
          const bool changed = change(nodes, below);
          return add_groups(folder, below, nodes) || changed;
        }
        std::map<std::string, Json> nodes;
        collect_zarr_nodes(folder, "", nodes);
        group["consolidated_metadata"] = {{"kind", "inline"}, {"must_understand", false}, {"metadata", nodes}};
        return change(group["consolidated_metadata"]["metadata"], below), true;
      });
    };
    for (const auto& [group, below] : groups()) of_group(group, below, group == store_);
    fs::path folder = fs::absolute(store_).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();  // "run.zarr/"
    std::string below = name_;
    for (fs::path above = folder.parent_path(); above != folder && fs::exists(above / "zarr.json");
         above = folder.parent_path()) {
      below = folder.filename().string() + "/" + below;
      of_group(above, below, false);
      folder = above;
    }
  }

  /// Adds the groups between a folder and the array to its list, where they are not there yet.
  static bool add_groups(const fs::path& folder, const std::string& below, Json& nodes) {
    bool added = false;
    for (std::size_t slash = below.find('/'); slash != std::string::npos; slash = below.find('/', slash + 1)) {
      const std::string group = below.substr(0, slash);
      if (nodes.contains(group) || !fs::exists(folder / group / "zarr.json")) continue;
      nodes[group] = zarr_json_of(folder / group);
      nodes[group].erase("consolidated_metadata");
      added = true;
    }
    return added;
  }

  fs::path store_;
  std::string name_;
  fs::path path_;
  std::optional<PlacedFile> lock_;
};

}  // namespace halogen::detail
