// What the json room throws. All of it is about text from outside: nothing here means a fault of our own.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bascule::json {

// The text is not JSON (or YAML, or a Kubernetes list). `offset` counts bytes from the start of the text or stream.
class ParseError : public std::runtime_error {
 public:
  ParseError(const std::string& sentence, std::size_t offset) : std::runtime_error(sentence), offset_(offset) {}
  std::size_t offset() const noexcept { return offset_; }

 private:
  std::size_t offset_;
};

// The text may be fine but is bigger or deeper than we take.
class LimitError final : public ParseError {
 public:
  using ParseError::ParseError;
};

// Well-formed, but a field has another kind than its API says. `path` is written like spec.containers[2].name.
class ShapeError final : public std::runtime_error {
 public:
  ShapeError(std::string path, std::string_view expected)
      : std::runtime_error((path.empty() ? std::string("the document") : path) + ": expected " + std::string(expected)),
        path_(std::move(path)) {}
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// A patch that cannot be applied: a path that is not there, a failed test, a directive that makes no sense.
class PatchError final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace bascule::json
