#include "streams.hpp"

#include <algorithm>
#include <cstdlib>
#include <random>

namespace emulated {
namespace {

std::vector<Handle> pending;
std::vector<Stream*> streams;

std::mt19937& draw() {
  static std::mt19937 one([] {
    const char* const seed = std::getenv("CUDA_STANDIN_SEED");
    return static_cast<unsigned>(seed != nullptr ? std::atoi(seed) : 1);
  }());
  return one;
}

bool can_run(Operation& operation) {
  std::erase_if(operation.after, [](const Handle& one) { return one->done; });
  return operation.after.empty();
}

bool run_one() {
  if (pending.empty()) return false;
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < pending.size() && ready.size() < 16; ++i)
    if (can_run(*pending[i])) ready.push_back(i);
  const std::size_t chosen = ready[draw()() % ready.size()];
  const Handle operation = pending[chosen];
  pending.erase(pending.begin() + static_cast<long>(chosen));
  if (operation->work) operation->work();
  operation->work = nullptr;
  operation->done = true;
  return true;
}

Handle add(std::function<void()> work, std::vector<Handle> after) {
  std::erase(after, nullptr);
  auto made = std::make_shared<Operation>(Operation{std::move(work), std::move(after), false});
  pending.push_back(made);
  return made;
}

/// What an operation of this stream comes after.
std::vector<Handle> before(Stream& stream) {
  std::vector<Handle> all = {stream.last};
  if (&stream == default_stream()) {
    for (Stream* one : streams)
      if (one->waits_for_default) all.push_back(one->last);
  } else if (stream.waits_for_default) {
    all.push_back(default_stream()->last);
  }
  return all;
}

}  // namespace

Stream* default_stream() {
  static Stream one;
  return &one;
}

Stream* make_stream(bool waits_for_default) {
  auto* const made = new Stream;
  made->waits_for_default = waits_for_default;
  streams.push_back(made);
  return made;
}

void destroy(Stream* stream) {
  std::erase(streams, stream);
  delete stream;
}

void enqueue(Stream& stream, std::function<void()> work) {
  if (stream.capture) {
    auto& nodes = stream.capture->graph.nodes;
    nodes.push_back({std::move(work), stream.last_nodes});
    stream.last_nodes = {nodes.size() - 1};
    return;
  }
  stream.last = add(std::move(work), before(stream));
}

void record(Event& event, Stream& stream) {
  event.recorded = true;
  event.capture = stream.capture;
  event.nodes = stream.last_nodes;
  if (stream.capture) return;
  event.last = add({}, before(stream));
  stream.last = event.last;
}

void wait(Stream& stream, const Event& event) {
  if (event.capture && !event.capture->ended) {
    if (!stream.capture) stream.capture = event.capture, stream.last_nodes.clear();
    for (const std::size_t node : event.nodes)
      if (std::find(stream.last_nodes.begin(), stream.last_nodes.end(), node) == stream.last_nodes.end())
        stream.last_nodes.push_back(node);
    return;
  }
  if (!event.last || event.last->done) return;
  auto after = before(stream);
  after.push_back(event.last);
  stream.last = add({}, std::move(after));
}

bool is_done(const Handle& operation) { return !operation || operation->done; }

void run_until(const Handle& operation) {
  while (!is_done(operation)) run_one();
}
void run_some() { run_one(); }
void run_all() {
  while (run_one()) {
  }
}

bool begin_capture(Stream& stream) {
  if (stream.capture) return false;
  stream.capture = std::make_shared<Capture>();
  stream.began_here = true;
  stream.last_nodes.clear();
  return true;
}

std::unique_ptr<Graph> end_capture(Stream& stream) {
  if (!stream.capture || !stream.began_here) return nullptr;
  const auto capture = stream.capture;
  capture->ended = true;
  for (Stream* one : streams)
    if (one->capture == capture) one->capture = nullptr, one->last_nodes.clear(), one->began_here = false;
  stream.capture = nullptr, stream.last_nodes.clear(), stream.began_here = false;
  return std::make_unique<Graph>(std::move(capture->graph));
}

void launch(const Graph& graph, Stream& stream) {
  const auto first = before(stream);
  std::vector<Handle> made;
  for (const auto& node : graph.nodes) {
    auto after = first;
    for (const std::size_t one : node.after) after.push_back(made[one]);
    made.push_back(add(node.work, std::move(after)));
  }
  made.push_back(nullptr);
  made.insert(made.end(), first.begin(), first.end());
  stream.last = add({}, std::move(made));
}

}  // namespace emulated
