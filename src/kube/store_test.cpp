#include "kube/store.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace bascule::kube {
namespace {

struct Thing {
  ObjectMeta meta;
};

struct Store : testing::Test {
  ObjectStore store;
  std::vector<std::string> heard;

  Store() {
    store.add_index("uid", [](const void* object, std::vector<std::string>& values) {
      values.push_back(static_cast<const Thing*>(object)->meta.uid.str());
    });
    store.on_change([this](const auto& before, const auto& after) {
      const auto* old = static_cast<const Thing*>(before.get());
      const auto* now = static_cast<const Thing*>(after.get());
      const auto* any = now ? now : old;
      heard.push_back((old && now ? "~" : now ? "+" : "-") + any->meta.key.str() + "@" + any->meta.resource_version);
    });
  }
  static ObjectStore::Item thing(std::string name, std::string uid, std::string version) {
    auto out = std::make_shared<Thing>();
    out->meta.key = {"ns", std::move(name)};
    out->meta.uid = Uid(uid);
    out->meta.resource_version = std::move(version);
    return {out, &out->meta};
  }
  std::vector<std::string> take() {
    std::ranges::sort(heard);
    return std::exchange(heard, {});
  }
  using Words = std::vector<std::string>;
};

TEST_F(Store, tells_each_change_once) {
  store.put(thing("a", "1", "1"));
  EXPECT_EQ(take(), Words{"+ns/a@1"});
  store.put(thing("a", "1", "1"));
  EXPECT_EQ(take(), Words{});
  store.put(thing("a", "1", "2"));
  EXPECT_EQ(take(), Words{"~ns/a@2"});
  store.remove({"ns", "a"});
  EXPECT_EQ(take(), Words{"-ns/a@2"});
  store.remove({"ns", "a"});
  EXPECT_EQ(take(), Words{});
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(Store, another_object_of_the_same_name_is_gone_and_added) {
  store.put(thing("a", "1", "1"));
  take();
  store.put(thing("a", "2", "5"));
  EXPECT_EQ(heard, (Words{"-ns/a@1", "+ns/a@5"}));
  EXPECT_TRUE(store.by_index("uid", "1").empty());
  EXPECT_EQ(store.by_index("uid", "2").size(), 1U);
}

TEST_F(Store, a_list_tells_differences) {
  for (const char* name : {"a", "b", "c", "d"}) store.put(thing(name, name, "1"));
  take();
  store.list_begin();
  store.put(thing("a", "a", "1"));
  store.put(thing("b", "b", "7"));
  store.put(thing("e", "e", "8"));
  store.keep({"ns", "c"});
  EXPECT_EQ(take(), (Words{"+ns/e@8", "~ns/b@7"}));
  store.list_end();
  EXPECT_EQ(take(), Words{"-ns/d@1"});
}

TEST_F(Store, a_list_that_does_not_end_takes_nothing_away) {
  for (const char* name : {"a", "b"}) store.put(thing(name, name, "1"));
  store.list_begin();
  store.put(thing("a", "a", "2"));
  store.list_begin();
  store.put(thing("b", "b", "1"));
  take();
  store.list_end();
  EXPECT_EQ(take(), Words{"-ns/a@2"});
  EXPECT_NE(store.find({"ns", "b"}), nullptr);
  EXPECT_EQ(store.find({"ns", "a"}), nullptr);
}

}  // namespace
}  // namespace bascule::kube
