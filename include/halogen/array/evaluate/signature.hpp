// Signatures say whether two expressions of one type have the same parts: the same fields, stages and numbers. A part
// with numbers that are not known here, for example a functor with state, differs from all others. Reductions of the
// same parts are one stage.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "halogen/array/evaluate/stage.hpp"
#include "halogen/array/expression/regrid.hpp"

namespace halogen::detail {

template <class E>
Signature signature_of(const E& e) {
  Signature signature;
  sign(e, signature);
  return signature;
}

/// Records that are still in use, by their parts.
template <class Record>
class SignedRecords {
 public:
  template <class Make>
  std::shared_ptr<Record> find(const Signature& signature, Make make) {
    std::erase_if(records_, [](const auto& one) { return one.second.expired(); });
    for (const auto& [parts, record] : records_)
      if (parts == signature)
        if (auto found = record.lock()) return found;
    std::shared_ptr<Record> made = make();
    records_.emplace_back(signature, made);
    return made;
  }

 private:
  std::vector<std::pair<Signature, std::weak_ptr<Record>>> records_;
};

/// The result that all stages of this type share if they read an expression with these parts.
template <class Stage, class Result, class E>
StageResult<Result> shared_result(const E& read) {
  if constexpr (is_signed<E>) {
    static SignedRecords<typename StageResult<Result>::State> results;
    return results.find(signature_of(read), [] { return std::make_shared<typename StageResult<Result>::State>(); });
  } else {
    return {};
  }
}

}  // namespace halogen::detail
