#include "runtime/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bascule::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, TextHasWhatWasCounted) {
  Metrics metrics;
  metrics.add("things_total", "Things", {{"kind", "a"}}, 2);
  metrics.set("level", "Level", {}, 1.5);
  metrics.observe("wait_seconds", "Wait", {}, 0.02, latency_buckets());
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("things_total{kind=\"a\"} 2"));
  EXPECT_THAT(text, HasSubstr("# TYPE things_total counter"));
  EXPECT_THAT(text, HasSubstr("level 1.5"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"0.025\"} 1"));
}

TEST(Metrics, OneSeriesHoweverItIsReached) {
  Metrics metrics;
  const Counter counter = metrics.counter("things_total", "Things", {{"kind", "a"}});
  counter.add();
  metrics.counter("things_total", "Things", {{"kind", "a"}}).add(2);
  metrics.add("things_total", "Things", {{"kind", "b"}});
  EXPECT_THAT(metrics.text(), HasSubstr("things_total{kind=\"a\"} 3"));
}

TEST(Metrics, CountersNeverGoDown) {
  Metrics metrics;
  const Counter counter = metrics.counter("things_total", "Things", {});
  counter.raise_to(5);
  counter.raise_to(3);
  EXPECT_THAT(metrics.text(), HasSubstr("things_total 5"));
}

TEST(Metrics, NothingWithoutMetrics) {
  Counter().add();
  Counter().raise_to(1);
  Gauge().set(1);
  Histogram().observe(1);
}

TEST(Metrics, PartsOfAProcessThatAreAlikeHaveSeriesOfTheirOwn) {
  Metrics metrics;
  Metrics one(metrics, {{"namespace", "one"}});
  Metrics two(metrics, {{"namespace", "two"}});
  one.gauge("depth", "Depth", {{"queue", "q"}}).set(1);
  two.gauge("depth", "Depth", {{"queue", "q"}}).set(2);
  one.set("up", "Up", {{"namespace", "mine"}}, 3);
  const std::string text = metrics.text();
  EXPECT_THAT(text, HasSubstr("depth{namespace=\"one\",queue=\"q\"} 1"));
  EXPECT_THAT(text, HasSubstr("depth{namespace=\"two\",queue=\"q\"} 2"));
  EXPECT_THAT(text, HasSubstr("up{namespace=\"mine\"} 3"));
}

TEST(Metrics, CollectsWhileTheTokenLives) {
  Metrics metrics;
  int calls = 0;
  auto token = metrics.on_collect([&calls] { ++calls; });
  metrics.text();
  metrics.text();
  EXPECT_EQ(calls, 2);
  token.reset();
  metrics.text();
  EXPECT_EQ(calls, 2);
}

// What Go's client prints, digit for digit: a dashboard may name a bucket.
TEST(Metrics, DecadesAsGoPrintsThem) {
  Metrics metrics;
  metrics.observe("wait_seconds", "Wait", {}, 1e-7, decade_buckets());
  const std::string text = metrics.text();
  for (const char* bound : {"1e-08", "9.999999999999999e-06", "9.999999999999999e-05", "0.1", "1", "1000", "+Inf"}) {
    EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"" + std::string(bound) + "\"}"));
  }
  EXPECT_THAT(text, Not(HasSubstr("le=\"10000\"")));
}

TEST(Metrics, WhatIsNoMoreHasNoSeries) {
  Metrics metrics;
  metrics.set("up", "help", {{"name", "a"}}, 1);
  metrics.set("up", "help", {{"name", "b"}}, 1);
  metrics.remove("up", {{"name", "a"}});
  metrics.remove("up", {{"name", "never"}});
  metrics.remove("never", {});
  EXPECT_EQ(metrics.text().find(R"(up{name="a"})"), std::string::npos);
  EXPECT_NE(metrics.text().find(R"(up{name="b"} 1)"), std::string::npos);
  metrics.set("up", "help", {{"name", "a"}}, 0);
  EXPECT_NE(metrics.text().find(R"(up{name="a"} 0)"), std::string::npos);
}

}  // namespace
}  // namespace bascule::runtime
