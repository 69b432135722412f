// Numbers A.. are weaknesses of slurm-operator's admission that are closed.
#include <gtest/gtest.h>

#include "operator/webhook/test_objects.hpp"

namespace bascule::op {
namespace {

using testing::Case;
using testing::changed;
using testing::created;
using ::testing::ElementsAre;
using testing::expect_only;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::object;
using ::testing::StartsWith;
using testing::texts;

constexpr Kind kKind = Kind::kController;
constexpr std::string_view kKeys = "{slurmKeyRef: {name: s, key: k}, jwtKeyRef: {name: j, key: k}}";

TEST(controller_rules, a_usual_one_passes_silently) {
  const Findings findings = created(kKind, object(kKeys));
  EXPECT_THAT(texts(findings.faults), IsEmpty());
  EXPECT_THAT(texts(findings.warnings), IsEmpty());
}

TEST(controller_rules, creation) {
  const Case cases[] = {
      {"{clusterName: a.b-C_1}", ""},
      {"{clusterName: aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd}", ""},
      {"{clusterName: aaaaaaaaaabbbbbbbbbbccccccccccdddddddddde}", "spec.clusterName: 'aaaa"},
      {"{clusterName: \"a\\nSlurmUser=root\"}", "spec.clusterName: 'a\\x0aSlurmUser=root' cannot name a cluster"},
      {"{clusterName: ../etc}", "spec.clusterName: '../etc'"},
      {"{external: true, externalConfig: {host: h, port: 6817}}", ""},
      {"{external: true, externalConfig: {host: h, port: 0}}", "spec.externalConfig.port: is 0; name the port"},
      {"{external: true, externalConfig: {host: '', port: 1}}", "spec.externalConfig.host: is empty"},
      {"{external: true, externalConfig: {host: 'h x', port: 1}}",
       "spec.externalConfig.host: 'h x' is not a host name"},
      {"{service: {port: 70000}}", "spec.service.port: is 70000; it must be from 0 to 65535"},
      {"{service: {port: 0, nodePort: 32500}}", ""},
      {"{configFileRefs: [{name: ''}]}", "spec.configFileRefs[0].name: is empty"},
  };
  for (const Case& one : cases) expect_only(created(kKind, object(one.spec)), one.fault, one.spec);
}

TEST(controller_rules, names_that_fit_their_children) {  // A14
  const auto named = [](std::string_view name) { return created(kKind, object("{clusterName: c}", name)); };
  expect_only(named(std::string(41, 'a')), "", "41");
  expect_only(named(std::string(42, 'a')), "metadata.name: has 42 characters; at most 41 are possible", "42");
  expect_only(named("a.b"), "metadata.name: 'a.b' cannot name a Service", "dot");
  expect_only(named("1a"), "metadata.name: '1a' cannot name a Service", "digit");
  EXPECT_THAT(texts(created(kKind, object("{}", std::string(63, 'a'))).faults),
              ElementsAre(StartsWith("metadata.name"), StartsWith("spec.clusterName: 'hpc_aaa")));
}

TEST(controller_rules, what_cannot_be_changed) {
  struct Change {
    std::string_view before, after, fault;
  };
  const Change changes[] = {
      {"{}", "{clusterName: hpc_slurm}", ""},  // the same, said aloud
      {"{}", "{clusterName: other}", "spec.clusterName: cannot be changed from 'hpc_slurm' to 'other'"},
      {"{slurmKeyRef: {name: a, key: k}}", "{slurmKeyRef: {name: a, key: l}}", ""},
      {"{slurmKeyRef: {name: a, key: k}}", "{slurmKeyRef: {name: b, key: k}}",
       "spec.slurmKeyRef.name: cannot be changed from 'a' to 'b', since daemons with different keys do not talk to "
       "each "
       "other; to rotate the key let the jobs end, then change the content of Secret 'a'; if it is immutable, make it "
       "anew "
       "while no pod mounts it"},
      {"{jwtKeyRef: {name: a, key: k}}", "{jwtKeyRef: {name: a, key: l}}", "spec.jwtKeyRef: cannot be changed"},
      {"{jwtHs256KeyRef: {name: a, key: k}}", "{jwtKeyRef: {name: a, key: k}}", ""},  // the same key, by its newer name
      {"{jwtHs256KeyRef: {name: a, key: k}}", "{jwtKeyRef: {name: b, key: k}, jwtHs256KeyRef: {name: a, key: k}}",
       "spec.jwtKeyRef: cannot be changed"},
      {"{}", "{persistence: {enabled: true}}", ""},  // A54: the default, said aloud
      {"{}", "{persistence: {enabled: false}}", "spec.persistence.enabled: cannot be changed from true to false"},
      {"{persistence: {enabled: false}}", "{}", "spec.persistence.enabled: cannot be changed from false to true"},
      {"{persistence: {existingClaim: a}}", "{persistence: {existingClaim: b}}",
       "spec.persistence.existingClaim: cannot be changed from 'a' to 'b'"},
      {"{persistence: {enabled: false, existingClaim: a}}", "{persistence: {enabled: false, existingClaim: b}}", ""},
      // A cluster outside keeps its state and its name itself.
      {"{external: true}", "{external: true, clusterName: prod}", ""},
      {"{external: true, clusterName: prod}", "{external: true}", ""},
      {"{external: true, clusterName: a}", "{external: true, clusterName: 'x y'}",
       "spec.clusterName: 'x y' cannot name a cluster"},
      {"{external: true, clusterName: a}", "{clusterName: b}", "spec.clusterName: cannot be changed from 'a' to 'b'"},
      {"{clusterName: a}", "{external: true, clusterName: b}", "spec.clusterName: cannot be changed from 'a' to 'b'"},
      {"{extraConf: a}", "{extraConf: b}", ""},
      {"{}", "{ha: {enabled: true}}", ""},
  };
  for (const Change& one : changes) {
    expect_only(changed(kKind, object(one.before), object(one.after)), one.fault, one.after);
  }
}

TEST(controller_rules, an_update_that_leaves_the_spec_alone_passes_whatever_it_says) {
  json::Value before = object("{clusterName: 'x y', configFileRefs: [{name: ''}]}", std::string(60, 'a'));
  json::Value after = before;
  after.at("metadata").as_object()["labels"] = json::Object{{"a", "b"}};
  EXPECT_THAT(texts(changed(kKind, before, after).faults), IsEmpty());
  after.at("spec").as_object()["extraConf"] = "x";
  EXPECT_THAT(texts(changed(kKind, before, after).faults), ElementsAre(HasSubstr("configFileRefs")));
  after.at("metadata").as_object()["deletionTimestamp"] = "2030-01-01T00:00:00Z";
  EXPECT_THAT(texts(changed(kKind, before, after).faults), IsEmpty());
}

TEST(controller_rules, external_addresses_are_warned_about) {
  const Findings findings = created(kKind, object("{service: {spec: {externalIPs: [1.2.3.4]}}}"));
  EXPECT_THAT(texts(findings.faults), IsEmpty());
  EXPECT_THAT(texts(findings.warnings),
              ElementsAre(HasSubstr("spec.service.spec.externalIPs: is not taken over into Service slurm-controller")));
  EXPECT_THAT(created(kKind, object("{service: {spec: {externalIPs: []}}}")).warnings, IsEmpty());
}

TEST(controller_rules, lines_that_are_the_operators_are_warned_about) {
  const Findings findings = created(
      kKind, object("extraConf: \"MinJobAge=2\\n  slurmctldHOST =x\\n#ClusterName=y\\nAuthTypeX=1\\nSlurmUser=a\""));
  EXPECT_THAT(texts(findings.warnings),
              ElementsAre(StartsWith("spec.extraConf: slurmctldHOST is the operator's"), HasSubstr("SlurmUser")));
  const auto warned = [](std::string_view conf) {
    json::Value made = object("{}");
    json::at_or_create(made, {"spec", "extraConf"}) = conf;
    return texts(created(kKind, made).warnings);
  };
  EXPECT_THAT(warned("MinJobAge=2 SlurmUser=a\tauthtype = b"),
              ElementsAre(HasSubstr("SlurmUser is"), HasSubstr("authtype is")));
  EXPECT_THAT(warned("MinJobAge=2 \\\nClusterName=a"), ElementsAre(HasSubstr("ClusterName is")));
  EXPECT_THAT(warned("Epilog=\"a SlurmUser=b\" # AuthType=c\nInclude SlurmUser"), IsEmpty());
}

// Those of NodeSets stay until no job runs there; these are the user's own.
TEST(controller_rules, a_partition_that_goes_is_warned_about) {
  const auto with = [](std::string_view conf, bool external = false) {
    json::Value made = object(external ? "{external: true, externalConfig: {host: h, port: 1}}" : "{}");
    json::at_or_create(made, {"spec", "extraConf"}) = conf;
    return made;
  };
  const std::string both =
      "PartitionName=train Nodes=ALL\npartitionname=test Nodes=ALL\nPartitionName=DEFAULT State=UP";
  const auto warned = [&](const json::Value& before, const json::Value& after) {
    return texts(changed(kKind, before, after).warnings);
  };
  EXPECT_THAT(warned(with(both), with("PartitionName=test Nodes=ALL")),
              ElementsAre(StartsWith("spec.extraConf: partition train goes, and slurmctld ends the jobs in it")));
  EXPECT_THAT(warned(with(both), with("")), ::testing::SizeIs(2));
  EXPECT_THAT(warned(with(both), with(both + "\nPartitionName=new Nodes=ALL")), IsEmpty());
  EXPECT_THAT(warned(with(both, true), with("", true)), IsEmpty()) << "its slurm.conf is not ours";
}

Known maps(std::initializer_list<std::pair<std::string, std::vector<std::string>>> list) {
  Known known;
  for (const auto& [name, keys] : list) known.config_maps[name] = {.exists = true, .keys = keys};
  return known;
}

TEST(controller_rules, files) {
  const json::Value refs = object(
      "{configFileRefs: [{name: conf}], prologScriptRefs: [{name: pro}, {name: pro2}], epilogScriptRefs: [{name: "
      "epi}]}");
  const auto said = [&](const Known& known) { return created(kKind, refs, known); };
  EXPECT_THAT(texts(said({}).warnings), IsEmpty());  // unknown is unknown
  Known known =
      maps({{"conf", {"gres.conf", "topology.yaml"}}, {"pro", {"a.sh"}}, {"pro2", {"b.sh"}}, {"epi", {"c.sh"}}});
  EXPECT_THAT(texts(said(known).warnings), IsEmpty());
  EXPECT_THAT(texts(said(known).faults), IsEmpty());

  known.config_maps["pro"] = {};  // A55: warned about, not refused
  EXPECT_THAT(texts(said(known).faults), IsEmpty());
  EXPECT_THAT(texts(said(known).warnings),
              ElementsAre(StartsWith("spec.prologScriptRefs[0]: ConfigMap pro does not exist")));

  known = maps({{"conf", {"slurm.conf", "my.conf"}}});
  EXPECT_THAT(texts(said(known).faults),
              ElementsAre(StartsWith("spec.configFileRefs[0]: slurm.conf of ConfigMap conf")));
  EXPECT_THAT(texts(said(known).warnings), ElementsAre(HasSubstr("my.conf of ConfigMap conf is no file Slurm reads")));

  known = maps({{"pro2", {"x.sh"}}, {"epi", {"x.sh"}}});  // A9
  expect_only(said(known), "spec.epilogScriptRefs[0]: x.sh of ConfigMap epi comes from spec.prologScriptRefs[1] too",
              "twice");
}

TEST(controller_rules, one_map_in_several_lists_is_no_collision) {
  const Known known = maps({{"health", {"check.sh"}}, {"other", {"check.sh"}}});
  const auto said = [&](std::string_view spec) { return created(kKind, object(spec), known); };
  expect_only(said("{prologScriptRefs: [{name: health}], epilogScriptRefs: [{name: health}]}"), "", "two lists");
  expect_only(said("{prologScriptRefs: [{name: health}, {name: health}]}"), "", "twice in one");
  expect_only(said("{prologScriptRefs: [{name: health}], epilogScriptRefs: [{name: health}, {name: other}]}"),
              "spec.epilogScriptRefs[1]: check.sh of ConfigMap other comes from spec.prologScriptRefs[0] too",
              "another");
}

TEST(controller_rules, a_jwks_file_is_the_operators_where_it_writes_one) {
  const Known known = maps({{"conf", {"jwks.json"}}});
  expect_only(created(kKind, object("{configFileRefs: [{name: conf}]}"), known), "", "nobody writes it");
  expect_only(created(kKind, object("{configFileRefs: [{name: conf}], jwksKeyRef: {name: j, key: k}}"), known),
              "spec.configFileRefs[0]: jwks.json of ConfigMap conf would replace", "jwksKeyRef");
}

TEST(controller_rules, availability_needs_a_claim_for_many) {
  const json::Value ha = object("{ha: {enabled: true}, persistence: {existingClaim: state}}");
  EXPECT_THAT(wanted(kKind, ha).claims, ElementsAre("state"));
  Known known;
  EXPECT_THAT(texts(created(kKind, ha, known).faults), IsEmpty());
  known.claims["state"] = {};
  EXPECT_THAT(texts(created(kKind, ha, known).faults), IsEmpty());
  known.claims["state"] = {.exists = true, .access_modes = {"ReadWriteOnce"}};
  expect_only(created(kKind, ha, known), "spec.persistence.existingClaim: claim state can be written by one node only",
              "RWO");
  const json::Value off = object("{ha: {enabled: false}, persistence: {existingClaim: state}}");
  expect_only(created(kKind, off, known), "", "off");
  known.claims["state"].access_modes.emplace_back("ReadWriteMany");
  expect_only(created(kKind, ha, known), "", "RWX");
}

TEST(controller_rules, look_ups_are_bounded) {
  json::Value many = object("{}");
  json::Array refs;
  for (int i = 0; i < 1000; ++i) refs.push_back(json::Object{{"name", "m" + std::to_string(i)}});
  many.at("spec").as_object()["prologScriptRefs"] = std::move(refs);
  EXPECT_EQ(wanted(kKind, many).config_maps.size(), kMaxLookups - 1);
  many.at("spec").as_object()["external"] = true;
  EXPECT_THAT(wanted(kKind, many).config_maps, IsEmpty());
}

}  // namespace
}  // namespace bascule::op
