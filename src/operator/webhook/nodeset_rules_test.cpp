// Numbers A.. are weaknesses of slurm-operator's admission that are closed.
#include <gtest/gtest.h>

#include <chrono>

#include "operator/webhook/test_objects.hpp"

namespace bascule::op {
namespace {

using testing::Case;
using testing::changed;
using testing::created;
using ::testing::ElementsAre;
using testing::expect_only;
using testing::object;
using testing::texts;

constexpr Kind kKind = Kind::kNodeSet;

json::Value nodeset(std::string_view spec, std::string_view name = "gpu") {
  json::Value made = object(spec, name);
  json::at_or_create(made, {"spec", "controllerRef", "name"}) = "slurm";
  return made;
}

TEST(nodeset_rules, creation) {
  const Case cases[] = {
      {"{}", ""},
      {"{replicas: 0}", ""},
      {"{replicas: -1}", "spec.replicas: is -1; it must be from 0"},
      {"{minReadySeconds: -1}", "spec.minReadySeconds: is -1"},
      {"{revisionHistoryLimit: -1}", "spec.revisionHistoryLimit: is -1"},
      {"{ordinalPadding: 20}", ""},
      {"{ordinalPadding: 21}", "spec.ordinalPadding: is 21; it must be from 0 to 20"},
      {"{ssh: {enabled: true, sssdConfRef: {key: k}}}", "spec.ssh.sssdConfRef.name: is empty"},
      {"{ssh: {enabled: false, sssdConfRef: {key: k}}}", ""},
      {"{ssh: {enabled: true, sssdConfRef: {name: s, key: k}}}", ""},
  };
  for (const Case& one : cases) expect_only(created(kKind, nodeset(one.spec)), one.fault, one.spec);
}

TEST(nodeset_rules, max_unavailable) {  // A54
  const Case cases[] = {
      {"1", ""},
      {"100", ""},
      {"25%", ""},
      {"1%", ""},
      {"100%", ""},
      {"null", ""},
      {"0", "is 0 and would never update a node"},
      {"0%", "is 0% and would never"},
      {"00%", "is 00% and would never"},
      {"-1", "is -1; it must not be negative"},
      {"'0'", "is 0 and would never"},
      {"'5'", ""},
      {"'5 '", "is \"5 \"; it must be a number as in 2, or a percentage"},
      {"-5%", "is \"-5%\""},
      {"x%", "is \"x%\""},
      {"'%'", "is "},
      {"1.5%", "is \"1.5%\""},
      {"' 5%'", "is \" 5%\""},
  };
  for (const Case& one : cases) {
    const auto spec = fmt::format("{{updateStrategy: {{rollingUpdate: {{maxUnavailable: {}}}}}}}", one.spec);
    const std::string fault =
        one.fault.empty() ? "" : fmt::format("spec.updateStrategy.rollingUpdate.maxUnavailable: {}", one.fault);
    expect_only(created(kKind, nodeset(spec)), fault, one.spec);
  }
}

TEST(nodeset_rules, scheduled_duration) {
  const Case cases[] = {{"30m", ""},
                        {"1m", ""},
                        {"0s", ""},
                        {"59s", "'59s' is too short"},
                        {"-1h", "'-1h' is too short"},
                        {"2h30m", ""},
                        {"soon", "is \"soon\"; it must be a duration"},
                        {"'30'", "is \"30\""},
                        {"''", "is \"\""}};
  for (const Case& one : cases) {
    const auto spec = fmt::format("{{updateStrategy: {{scheduledUpdate: {{duration: {}}}}}}}", one.spec);
    const std::string fault =
        one.fault.empty() ? "" : fmt::format("spec.updateStrategy.scheduledUpdate.duration: {}", one.fault);
    expect_only(created(kKind, nodeset(spec)), fault, one.spec);
  }
}

TEST(nodeset_rules, extra_conf) {
  const Case cases[] = {{"", ""},
                        {"  \\t", ""},
                        {"Feature=a Weight=5", ""},
                        {"Gres=gpu:4  CPUs=3 ", ""},
                        {"Feature=a=b", ""},
                        {"Weight=", ""},
                        {"Weight10", R"(spec.extraConf: "Weight10" is no Key=Value)"},
                        {"Feature=a Weight10 X=1", R"(spec.extraConf: "Weight10" is no Key=Value)"},
                        {"=10", R"(spec.extraConf: "=10" is no Key=Value)"}};
  for (const Case& one : cases) {
    expect_only(created(kKind, nodeset(fmt::format("{{extraConf: \"{}\"}}", one.spec))), one.fault, one.spec);
  }
  expect_only(created(kKind, nodeset("{extraConf: \"Gres='gpu'\"}")),
              "spec.extraConf: \"Gres='gpu'\" holds a single quote", "");
}

TEST(nodeset_rules, hostname) {
  const Case cases[] = {{"foo-", ""},
                        {"foo", ""},
                        {"1gpu-", ""},
                        {"''", ""},
                        {"\"foo\\nSlurmUser=root\"", "'foo\\x0aSlurmUser=root' cannot begin a host name"},
                        {"Foo-", "'Foo-'"},
                        {"'foo--'", "'foo--'"},
                        {"'-'", "'-'"},
                        {"'  '", "'  '"},   // A8
                        {"a.b", "'a.b'"}};  // A14: no pod can be called so
  for (const Case& one : cases) {
    const std::string fault = one.fault.empty() ? "" : fmt::format("spec.template.spec.hostname: {}", one.fault);
    expect_only(created(kKind, nodeset(fmt::format("{{template: {{spec: {{hostname: {}}}}}}}", one.spec))), fault,
                one.spec);
  }
}

TEST(nodeset_rules, hostname_of_a_daemon_set_may_have_dots) {  // its nodes are called like Kubernetes'
  const Case cases[] = {
      {"a.b", ""},           {"rack-1.gpu-", ""}, {"gpu-", ""},       {"a..b", "'a..b' cannot begin a host name"},
      {".a", "'.a'"},        {"a.", "'a.'"},      {"a-.b", "'a-.b'"}, {"a.B", "'a.B'"},
      {"'a.b--'", "'a.b--'"}};
  for (const Case& one : cases) {
    const std::string fault = one.fault.empty() ? "" : fmt::format("spec.template.spec.hostname: {}", one.fault);
    const std::string spec = fmt::format("{{scalingMode: DaemonSet, template: {{spec: {{hostname: {}}}}}}}", one.spec);
    expect_only(created(kKind, nodeset(spec)), fault, one.spec);
  }
  const std::string label(60, 'a');
  const std::string longest = fmt::format("{0}.{0}.{0}.{0}", label);
  for (const char* more : {"", ".aaaaaaaaaa"}) {
    const std::string spec =
        fmt::format("{{scalingMode: DaemonSet, template: {{spec: {{hostname: {}{}}}}}}}", longest, more);
    expect_only(created(kKind, nodeset(spec)), *more == 0 ? "" : "spec.template.spec.hostname: 'aaa", more);
  }
  expect_only(changed(kKind, nodeset("{scalingMode: DaemonSet, template: {spec: {hostname: a.b}}}"),
                      nodeset("{template: {spec: {hostname: a.b}}}")),
              "spec.template.spec.hostname: 'a.b' cannot begin", "no longer");
}

TEST(nodeset_rules, node_names_are_of_one_nodeset) {
  const auto beside = [](std::string_view other, std::string_view spec) {
    Known known;
    known.node_sets.push_back(nodeset(other, "other"));
    return created(kKind, nodeset(spec), known);
  };
  const auto named = [](std::string_view hostname, std::string_view more = "replicas: 3") {
    return fmt::format("{{template: {{spec: {{hostname: {}}}}}, {}}}", hostname, more);
  };
  EXPECT_THAT(texts(beside(named("cpu-"), named("cpu-")).faults),
              ElementsAre("spec.template.spec.hostname: NodeSets gpu and other would both make the Slurm node cpu-0, "
                          "and Slurm tells nodes apart by their names alone; give this one another hostname"));
  struct Pair {
    std::string other, ours;
    std::string_view node;  // empty: let in
  };
  const Pair pairs[] = {
      {named("cpu-"), named("gpu-"), ""},
      {named("cpu-"), named("cpu-", "replicas: 0"), ""},
      {named("cpu-", "replicas: 0"), named("cpu-"), ""},
      {named("cpu-", "replicas: 1"), named("cpu-", "ordinalPadding: 1"), "cpu-0"},
      {named("gpu-"), "{}", "gpu-0"},
      {"{}", named("other-"), "other-0"},
      {named("m", "replicas: 20"), named("m1", "replicas: 2"), "m10"},
      {named("m", "replicas: 10"), named("m-1", "replicas: 2"), ""},  // m1: a_nodeset_is_not_called_like_a_node
      {named("m1", "replicas: 2"), named("m", "replicas: 11"), "m10"},
      {named("m", "replicas: 50, ordinalPadding: 3"), named("m0", "replicas: 2, ordinalPadding: 2"), "m000"},
      {named("cpu-", "replicas: 11"), named("cpu-", "replicas: 11, ordinalPadding: 2"), "cpu-10"},
      {named("cpu-", "replicas: 10"), named("cpu-", "replicas: 10, ordinalPadding: 2"), ""},
      {named("cpu-", "scalingMode: DaemonSet"), named("cpu-"), ""},
      {named("cpu-"), named("cpu-", "scalingMode: DaemonSet"), ""},
      {"{template: {spec: {hostname: cpu-, hostNetwork: true}}}", named("cpu-"), ""},
      {named("m", "replicas: 99999999"), named("m18446744073709551615"), ""},
      {named("m", "replicas: 20000"), named("m", "replicas: 20000, ordinalPadding: 5"), "m10000"},
      {named("m", "replicas: 20000"), named("m", "replicas: 20000, ordinalPadding: 6"), ""},
      {named("m", "replicas: 20000, ordinalPadding: 2"), named("m", "replicas: 20000, ordinalPadding: 3"), "m100"},
      {named("m", "replicas: 1101, ordinalPadding: 4"), named("m1", "replicas: 2000, ordinalPadding: 2"), "m1100"},
      {named("m", "replicas: 111"), named("m11", "replicas: 2000"), "m110"},
  };
  for (const Pair& pair : pairs) {
    const std::string fault = fmt::format(
        "spec.template.spec.hostname: NodeSets gpu and other would both make the Slurm node {},", pair.node);
    expect_only(beside(pair.other, pair.ours), pair.node.empty() ? "" : fault, pair.other + pair.ours);
  }
}

// One space of names in Slurm: slurmctld does not register such a node, nor start with one in its state.
TEST(nodeset_rules, a_nodeset_is_not_called_like_a_node) {
  const auto beside = [](const json::Value& other, const json::Value& ours) {
    Known known;
    known.node_sets = {other};
    return created(kKind, ours, known);
  };
  const json::Value h100 = nodeset("{replicas: 3}", "h100");
  const json::Value two = nodeset("{replicas: 1}", "h100-2");
  constexpr std::string_view kFault =
      "spec.template.spec.hostname: slurm.conf would call NodeSet h100-2 like Slurm node h100-2 of NodeSet h100";
  expect_only(beside(h100, two), kFault, "the one is there");
  expect_only(beside(two, h100), kFault, "the other");
  expect_only(beside(h100, nodeset("{scalingMode: DaemonSet}", "h100-2")), kFault, "its nodes do not matter");
  expect_only(beside(h100, nodeset("{}", "h100-3")), "", "beyond");
  expect_only(beside(h100, nodeset("{template: {spec: {hostname: h-}}}", "h100-2")), "", "called otherwise");
  expect_only(beside(nodeset("{template: {spec: {hostname: m}}, replicas: 10}", "h"),
                     nodeset("{template: {spec: {hostname: m1}}, replicas: 2}", "i")),
              "spec.template.spec.hostname: slurm.conf would call NodeSet i like Slurm node m1 of NodeSet h",
              "no dash");
  expect_only(beside(nodeset("{ordinalPadding: 2, replicas: 3}", "h100"), two), "", "padded");
  // Let in before.
  Known known;
  known.node_sets = {two};
  expect_only(changed(kKind, nodeset("{replicas: 4}", "h100"), h100, known), "", "smaller");
  expect_only(changed(kKind, nodeset("{replicas: 2}", "h100"), h100, known), kFault, "scaled");
}

// slurmctld ends at such a line, and then can never say that no job runs in the partition.
TEST(nodeset_rules, partition_config) {
  const auto with = [](std::string_view config, bool enabled = true) {
    json::Value made = nodeset(fmt::format("{{partition: {{enabled: {}}}}}", enabled));
    json::at_or_create(made, {"spec", "partition", "config"}) = config;
    return made;
  };
  for (const std::string_view well :
       {"", " ", "State=UP Default=YES MaxTime=UNLIMITED", "maxtime = 60", "AllowAccounts=\"a b\" QOS=x  ",
        "Topology=t Exclusive=USER", "State=UP # until May", "State=UP \\", "State=UP\nnot taken"}) {
    expect_only(created(kKind, with(well)), "", well);
  }
  expect_only(created(kKind, with("State=UP MaxTme=60")),
              "spec.partition.config: MaxTme is no option of a partition in slurm.conf, and slurmctld would not start",
              "misspelt");
  expect_only(created(kKind, with("State=UP PartitionName=x")), "spec.partition.config: PartitionName is no", "twice");
  expect_only(created(kKind, with("= x")), "spec.partition.config: '=' is no Key=value", "no key");
  expect_only(created(kKind, with("State=UP =YES")), "spec.partition.config: '=' is no Key=value", "nor here");
  expect_only(created(kKind, with("State=UP exclusive")), "spec.partition.config: 'exclusive' is no Key=value", "bare");
  expect_only(created(kKind, with("State=UP AllowAccounts= ")), "spec.partition.config: AllowAccounts has no value",
              "empty");
  expect_only(created(kKind, with("MaxTime=often Shared+=a=b")), "", "what it means is not judged");
  expect_only(created(kKind, with("MaxTme=60", false)), "", "off");
  expect_only(changed(kKind, with("MaxTme=60", false), with("MaxTme=60")), "spec.partition.config: MaxTme", "switched");
  json::Value scaled = with("MaxTme=60");
  json::at_or_create(scaled, {"spec", "replicas"}) = 7;
  expect_only(changed(kKind, with("MaxTme=60"), scaled), "", "let in before");
}

TEST(nodeset_rules,
     names_of_many_nodesets_are_compared_at_once) {  // it would keep the reviews of all namespaces waiting
  Known known;
  for (int i = 1; i <= 1000; ++i) {
    known.node_sets.push_back(nodeset(fmt::format("{{template: {{spec: {{hostname: m{}}}}}, replicas: 65536}}", i),
                                      fmt::format("other-{}", i)));
  }
  const auto begun = std::chrono::steady_clock::now();
  expect_only(created(kKind, nodeset("{template: {spec: {hostname: m}}, replicas: 1}"), known), "", "none is shared");
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(500));
}

TEST(nodeset_rules, node_names_of_others_do_not_matter) {
  const json::Value set = nodeset("{template: {spec: {hostname: cpu-}}, replicas: 3}");
  const auto with = [&](json::Value other) {
    Known known;
    known.node_sets = {set, std::move(other)};
    return created(kKind, set, known);
  };
  json::Value other = nodeset("{template: {spec: {hostname: cpu-}}}", "other");
  EXPECT_EQ(with(other).faults.size(), 1u);
  json::Value deleted = other;
  json::at_or_create(deleted, {"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
  expect_only(with(deleted), "", "deleted");
  json::Value elsewhere = other;
  json::at_or_create(elsewhere, {"spec", "controllerRef", "name"}) = "another";
  expect_only(with(elsewhere), "", "another Slurm");
  // Let in before: it may be changed, and mended.
  Known known;
  known.node_sets = {set, other};
  expect_only(changed(kKind, set, nodeset("{template: {spec: {hostname: cpu-}}, replicas: 2}"), known), "", "smaller");
  expect_only(changed(kKind, nodeset("{template: {spec: {hostname: gpu-}}}"), set, known),
              "spec.template.spec.hostname: NodeSets gpu and other", "new");
}

TEST(nodeset_rules, lengths) {  // A14
  const auto named = [](std::size_t length, std::string_view spec) {
    return created(kKind, nodeset(spec, std::string(length, 'a')));
  };
  expect_only(named(61, "{replicas: 10}"), "", "-9");
  expect_only(named(61, "{replicas: -9223372036854775808}"), "spec.replicas: is -9223372036854775808", "least number");
  expect_only(named(61, "{replicas: 11}"),
              "metadata.name: with the number of its last node a pod's name has 64 characters", "-10");
  expect_only(named(61, "{ordinalPadding: 3}"), "metadata.name: with the number", "-000");
  expect_only(named(63, "{scalingMode: DaemonSet, replicas: 1000}"), "", "daemon");
  expect_only(named(64, "{scalingMode: DaemonSet}"), "metadata.name: has 64 characters", "daemon");
  expect_only(created(kKind, nodeset(fmt::format("{{replicas: 1001, template: {{spec: {{hostname: {}-}}}}}}",
                                                 std::string(59, 'h')))),
              "spec.template.spec.hostname: with its number a host name would have 64 characters", "hostname");
  expect_only(created(kKind, nodeset("{}", "a.b")), "metadata.name: 'a.b' cannot begin the host names", "dot");
  expect_only(created(kKind, nodeset("{scalingMode: DaemonSet}", "a.b")), "", "dot");
  // Scaling out is where it begins to fail.
  expect_only(
      changed(kKind, nodeset("{replicas: 10}", std::string(61, 'a')), nodeset("{replicas: 100}", std::string(61, 'a'))),
      "metadata.name: with the number", "scaled");
}

TEST(nodeset_rules, controller) {
  expect_only(created(kKind, object("{controllerRef: {}}", "gpu")), "spec.controllerRef.name: is empty", "empty");
  expect_only(created(kKind, object(fmt::format("{{controllerRef: {{name: {}}}}}", std::string(49, 'c')))), "", "49");
  expect_only(created(kKind, object(fmt::format("{{controllerRef: {{name: {}}}}}", std::string(50, 'c')))),
              "spec.controllerRef.name: no Service can be called 'slurm-workers-ccc", "50");
  expect_only(changed(kKind, object("{controllerRef: {name: a}}"), object("{controllerRef: {name: b}}")),
              "spec.controllerRef: cannot be changed from 'a' to 'b'", "changed");
}

TEST(nodeset_rules, claims_cannot_be_changed) {
  const json::Value none = nodeset("{replicas: 1}");
  const json::Value empty = nodeset("{replicas: 2, volumeClaimTemplates: []}");
  const json::Value null = nodeset("{replicas: 3, volumeClaimTemplates: null}");
  const json::Value one = nodeset("{volumeClaimTemplates: [{metadata: {name: a}}]}");
  const json::Value other = nodeset("{volumeClaimTemplates: [{metadata: {name: b}}]}");
  for (const json::Value* before : {&none, &empty, &null}) {
    for (const json::Value* after : {&none, &empty, &null}) expect_only(changed(kKind, *before, *after), "", "none");
    expect_only(changed(kKind, *before, one), "spec.volumeClaimTemplates: cannot be changed", "added");
    expect_only(changed(kKind, one, *before), "spec.volumeClaimTemplates: cannot be changed", "removed");
  }
  expect_only(changed(kKind, one, other), "spec.volumeClaimTemplates: cannot be changed", "changed");
  expect_only(changed(kKind, one, nodeset("{replicas: 4, volumeClaimTemplates: [{metadata: {name: a}}]}")), "", "kept");
  // By meaning, as tools write it anew.
  const auto claim = [](std::string_view text) {
    json::Value made = nodeset("{}");
    json::at_or_create(made, {"spec", "volumeClaimTemplates"}) = json::Array{json::parse_yaml(text)};
    return made;
  };
  const json::Value plain = claim("{metadata: {name: a}, spec: {resources: {requests: {storage: 1024Mi}}}}");
  const json::Value again = claim(
      "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, creationTimestamp: null}, spec: {resources: "
      "{requests: {storage: 1Gi}}}, status: {}}");
  const json::Value bigger = claim("{metadata: {name: a}, spec: {resources: {requests: {storage: 2Gi}}}}");
  const json::Value of_class =
      claim("{metadata: {name: a}, spec: {storageClassName: x, resources: {requests: {storage: 1Gi}}}}");
  const auto both_ways = [](const json::Value& a, const json::Value& b, std::string_view fault) {
    json::Value before = a;
    json::at_or_create(before, {"spec", "replicas"}) = 7;  // else the specification is untouched
    expect_only(changed(kKind, before, b), fault, json::dump(b));
    before = b;
    json::at_or_create(before, {"spec", "replicas"}) = 7;
    expect_only(changed(kKind, before, a), fault, json::dump(a));
  };
  both_ways(plain, again, "");
  both_ways(plain, bigger, "spec.volumeClaimTemplates: cannot be changed");
  both_ways(plain, of_class, "spec.volumeClaimTemplates: cannot be changed");
  // Said, these two keep a claim from being provisioned.
  for (const std::string_view field : {"storageClassName: ''", "selector: {}"}) {
    const json::Value bound =
        claim(fmt::format("{{metadata: {{name: a}}, spec: {{{}, resources: {{requests: {{storage: 1Gi}}}}}}}}", field));
    both_ways(plain, bound, "spec.volumeClaimTemplates: cannot be changed");
    both_ways(bound, bound, "");
  }
  both_ways(plain,
            claim("{metadata: {name: a}, spec: {storageClassName: null, volumeName: '', resources: {requests: "
                  "{storage: 1Gi}}}}"),
            "");
}

}  // namespace
}  // namespace bascule::op
