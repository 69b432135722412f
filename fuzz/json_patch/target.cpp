// Input: a document, a line break, a patch. No patch does anything but apply or be refused; diffs round-trip.
#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "json/patch.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bascule::json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(text.find('\n'), text.size());
  try {
    const Value document = parse(text.substr(0, cut));
    const Value patch = parse(text.substr(std::min(cut + 1, text.size())));
    BASCULE_CHECK(equal(patched(document, diff_patch(document, patch)), patch), "a JSON patch round-trips");
    const Value after = merged(document, patch);
    BASCULE_CHECK(equal(merged(after, patch), after), "a merge patch applied twice changes nothing more");
    BASCULE_CHECK(
        equal(parse(dump(document)), document) || dump(document).contains('.') || dump(document).contains('e'),
        "text round-trips");
    dump(patched(document, patch));
  } catch (const ParseError&) {
  } catch (const PatchError&) {
  }
  return 0;
}
