// Ownership of OpenSSL's objects: std::unique_ptr<X509, Free<X509_free>>. For files of this room alone.
#pragma once

namespace bascule::net {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* p) const noexcept {
    kFree(p);
  }
};

}  // namespace bascule::net
