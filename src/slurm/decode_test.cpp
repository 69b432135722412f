#include "slurm/decode.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "json/error.hpp"
#include "slurm/encode.hpp"

namespace bascule::slurm {
namespace {

using testing::ElementsAre;

// Times go into clocks that count nanoseconds.
TEST(SlurmDecode, WhatIsNoTimeIsNotKnown) {
  const auto answer = decode_jobs(R"({"last_update":1,"jobs":[
    {"job_id":1,"start_time":9223372036854775807,"submit_time":{"set":true,"infinite":false,"number":18446744073709551615},
     "end_time":{"set":true,"infinite":true,"number":0}},
    {"job_id":2,"start_time":-1,"submit_time":4294967295,"end_time":{"set":true,"number":253402300800}}]})");
  ASSERT_TRUE(answer.list);
  const Job& a = answer.list->jobs.at(0);
  EXPECT_EQ(a.start_time, 0);
  EXPECT_EQ(a.submit_time, 0);
  EXPECT_EQ(a.end_time, 0);
  const Job& b = answer.list->jobs.at(1);
  EXPECT_EQ(b.start_time, 0);
  EXPECT_EQ(b.submit_time, 4294967295);
  EXPECT_EQ(b.end_time, 0);
}

TEST(SlurmDecode, AJobInTheShapesOfAllVersions) {
  const auto answer = decode_jobs(R"-({"last_update":{"set":true,"infinite":false,"number":1795840000},"jobs":[
    {"job_id":17,"job_state":["CANCELLED","COMPLETING"],"name":"ph","user_name":"ada","user_id":1000,
     "nodes":"n[1-2,4]","priority":{"set":true,"infinite":false,"number":7},
     "time_limit":{"set":false,"infinite":true,"number":0},"flags":["EXTERNAL_JOB","X"],"hold":false,
     "gres_detail":["gpu:a100:2(IDX:0-1)"],"state_reason":"None","unknown":{"a":[1,{"b":null}]},
     "start_time":{"set":true,"infinite":false,"number":5},"job_resources":null},
    {"job_id":"18","job_state":"RUNNING","user_name":"","user_id":1000,"nodes":null,"priority":3,
     "time_limit":"10","flags":null,"job_resources":{"cpus":6,"nodes":{"count":2,"allocation":[
       {"index":0,"name":"n1","cpus":{"count":4,"used":0},"sockets":[{"index":0,"cores":[]}]},
       {"index":1,"name":"n2","cpus":{"count":2,"used":0}}]}},"gres_detail":null,"hold":null,"start_time":12,"name":null,"comment":7}
  ],"errors":[],"warnings":[],"meta":{
  "slurm" : {"release" : "26.05.5", "cluster" : "farm"}
}
})-");
  ASSERT_TRUE(answer.list);
  EXPECT_EQ(answer.list->last_update, 1795840000);
  EXPECT_EQ(answer.envelope.release, "26.05.5");
  ASSERT_EQ(answer.list->jobs.size(), 2u);
  const Job& a = answer.list->jobs[0];
  EXPECT_EQ(a.id, JobId{17});
  EXPECT_EQ(print(a.states), "CANCELLED+COMPLETING");
  EXPECT_EQ(a.user, "ada");
  EXPECT_EQ(a.priority, 7u);
  EXPECT_EQ(a.time_limit, kInfinite);
  EXPECT_TRUE(a.external);
  EXPECT_THAT(a.gres_detail, ElementsAre("gpu:a100:2(IDX:0-1)"));
  EXPECT_EQ(a.start_time, 5);
  const Job& b = answer.list->jobs[1];
  EXPECT_EQ(b.id, JobId{18});
  EXPECT_EQ(b.states.base, JobState::kRunning);
  EXPECT_EQ(b.user, "1000");
  EXPECT_EQ(b.priority, 3u);
  EXPECT_EQ(b.time_limit, 10u);
  EXPECT_EQ(b.start_time, 12);
  EXPECT_FALSE(b.external);
  EXPECT_EQ(b.nodes, "");
  EXPECT_EQ(b.comment, "7");
  EXPECT_THAT(a.node_cpus, ElementsAre());
  EXPECT_THAT(b.node_cpus, ElementsAre(4, 2));
}

TEST(SlurmDecode, AnUnsetLimitIsAbsent) {
  const auto answer = decode_jobs(R"({"jobs":[{"job_id":1,"time_limit":{"set":false,"infinite":false,"number":0}}]})");
  EXPECT_EQ(answer.list->jobs[0].time_limit, std::nullopt);
}

TEST(SlurmDecode, NoListIsNotAnEmptyList) {
  EXPECT_FALSE(decode_jobs(R"({"errors":[],"warnings":[]})").list);
  EXPECT_THROW(decode_jobs(R"({"jobs":null})"), json::ShapeError);
  EXPECT_THROW(decode_jobs(R"({"jobs":{}})"), json::ShapeError);
  EXPECT_THROW(decode_jobs(R"({"jobs":[{"name":"x"}]})"), json::ShapeError);
  EXPECT_THROW(decode_jobs(R"({"jobs":[{"job_id":0}]})"), json::ShapeError);
  EXPECT_THROW(decode_jobs(R"({"jobs":[5]})"), json::ShapeError);
  EXPECT_THROW(decode_jobs(""), json::ParseError);
  EXPECT_THROW(decode_jobs("[]"), json::ShapeError);
  EXPECT_THROW(decode_nodes(R"({"nodes":[{"state":["IDLE"]}]})"), json::ShapeError);
  const std::string whole = R"({"jobs":[{"job_id":1,"name":"a"},{"job_id":2}],"last_update":5,"errors":[]})";
  EXPECT_EQ(decode_jobs(whole).list->jobs.size(), 2u);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_ANY_THROW(decode_jobs(whole.substr(0, cut))) << whole.substr(0, cut);
  }
}

TEST(SlurmDecode, NothingNewerThanUpdateTime) {
  EXPECT_TRUE(decode_jobs(R"({"jobs":[],"last_update":{"set":true,"infinite":false,"number":0}})").list->unchanged);
  EXPECT_FALSE(decode_jobs(R"({"jobs":[],"last_update":{"set":true,"infinite":false,"number":9}})").list->unchanged);
  EXPECT_FALSE(decode_jobs(R"({"jobs":[]})").list->unchanged);
}

TEST(SlurmDecode, Envelopes) {
  const Envelope no = decode_envelope(
      R"-({"meta":{"plugin":{},"slurm":{"version":{"major":"24"},"release":"24.11.5"}},
      "errors":[{"description":"Batch job submission failed","error_number":2000,
                 "error":"Invalid partition name specified","source":"slurm_submit_batch_job()"}],
      "warnings":[{"description":"Ignoring unknown field","source":"#\/job\/foo\/"}]
})-");
  ASSERT_EQ(no.errors.size(), 1u);
  EXPECT_EQ(no.errors[0], (Complaint{2000, "Invalid partition name specified", "Batch job submission failed"}));
  EXPECT_EQ(no.warnings[0].description, "Ignoring unknown field");
  EXPECT_EQ(decode_envelope(R"({"result":{"job_id":5,"error_code":2042},"errors":[]})").job_id, 5u);
  EXPECT_EQ(decode_envelope(R"({"job_id":"6"})").job_id, 6u);
  const Envelope gone = decode_envelope(
      R"({"status":[{"error":{"string":"Invalid job id specified","code":2017,"message":"x"},"step_id":"999999"}]})");
  EXPECT_EQ(gone.status[0].number, 2017);
}

TEST(SlurmDecode, Pings) {
  EXPECT_TRUE(decode_ping(R"({"pings":[{"pinged":"DOWN"},{"pinged":"UP"}]})").list->up);
  EXPECT_TRUE(decode_ping(R"({"pings":[{"responding":true,"primary":true}]})").list->up);
  EXPECT_EQ(decode_ping(R"({"pings":[{"hostname":"a","responding":false},{"hostname":"b","responding":true}]})")
                .list->answering,
            std::vector<std::string>{"b"});
  const auto down = decode_ping(R"({"pings":[{"responding":false,"status":"Protocol authentication error"}]})");
  EXPECT_FALSE(down.list->up);
  EXPECT_EQ(down.list->status, "Protocol authentication error");
}

TEST(SlurmDecode, Allocations) {
  const auto held = decode_allocation(R"({"nodes":[{"node":"n1","sockets_per_node":2,"cores_per_socket":4,
    "mem_alloc":1000,"core_bitmap":"0x01","channel":{"set":false,"infinite":false,"number":0},
    "gres":[{"name":"gpu","type":"a100","count":2,"index":null}]}]})");
  ASSERT_EQ(held.list->size(), 1u);
  EXPECT_EQ(held.list->front().gres[0].count, 2u);
  EXPECT_EQ(held.list->front().gres[0].index, "");
}

std::string recorded(const std::string& name) {
  std::ifstream file(std::string(BASCULE_SOURCE_DIR) + "/fuzz/slurm_json/corpus/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Answers of slurmrestd 26.05.5 about one job and one node, through each data parser it serves.
TEST(SlurmDecode, AllVersionsTellTheSame) {
  Job job = decode_jobs(recorded("real_job_v44")).list.value().jobs.at(0);
  EXPECT_EQ(print(job.states), "RUNNING");
  EXPECT_EQ(job.name, "ph");
  EXPECT_EQ(job.nodes, "x[1-2]");
  EXPECT_EQ(job.user, "root");
  EXPECT_THAT(job.gres_detail, ElementsAre("gpu:h100:2(IDX:0-1)", "gpu:h100:2(IDX:0-1)"));
  EXPECT_EQ(job.time_limit, kInfinite);
  EXPECT_TRUE(job.external);
  EXPECT_EQ(decode_jobs(recorded("real_job_v43")).list->jobs.at(0), job);
  EXPECT_EQ(decode_jobs(recorded("real_job_v45")).list->jobs.at(0), job);
  job.external = false;
  EXPECT_EQ(decode_jobs(recorded("real_job_v42")).list->jobs.at(0), job);

  const Node node = decode_nodes(recorded("real_node_v44")).list.value().nodes.at(0);
  EXPECT_EQ(node.name, "x1");
  EXPECT_EQ(node.cpus, 64u);
  EXPECT_EQ(node.memory, 256000u);
  EXPECT_TRUE(node.states.has(NodeFlag::kExternal));
  EXPECT_EQ(decode_nodes(recorded("real_node_v45")).list->nodes.at(0), node);

  for (const auto* version : {"42", "43", "44", "45"}) {
    EXPECT_TRUE(decode_ping(recorded(std::string("real_ping_v") + version)).list->up);
  }
  EXPECT_EQ(decode_job_states(recorded("real_states")).list->size(), 1u);
  EXPECT_EQ(decode_allocation(recorded("real_resources")).list->at(0).gres.at(0).index, "0-1");
  EXPECT_EQ(decode_partitions(recorded("real_partitions")).list->at(0).nodes, "x[1-4]");
  EXPECT_TRUE(decode_jobs(recorded("real_jobs_unchanged")).list->unchanged);
  EXPECT_FALSE(decode_nodes(recorded("real_no_node")).list);
  EXPECT_EQ(decode_envelope(recorded("real_no_job")).errors.at(0).number, 2017);
  EXPECT_EQ(decode_envelope(recorded("real_delete_no_job")).status.at(0).number, 2017);
  EXPECT_EQ(decode_envelope(recorded("real_refused")).errors.at(0).number, 2000);
}

// Captured from slurmrestd 26.05: a finished task, an array that waits, both components of a heterogeneous job.
TEST(DecodeStates, KnowsJobsOfArraysAndHeterogeneousOnesByTheirOwnNumber) {
  const auto states = decode_job_states(R"({"jobs":[
      {"job_id":"17","state":["RUNNING"]},{"job_id":"13_5","state":["COMPLETED"]},
      {"job_id":"27_1","state":["PENDING"]},{"job_id":"27_2","state":["PENDING"]},
      {"job_id":"28+0","state":["PENDING"]},{"job_id":"29+1","state":["PENDING"]},{"job_id":30,"state":["RUNNING"]}]})");
  std::vector<std::uint32_t> ids;
  for (const JobBrief& job : *states.list) ids.push_back(job.id.value);
  EXPECT_EQ(ids, (std::vector<std::uint32_t>{17, 13, 27, 27, 28, 29, 30}));
  for (const char* name : {"", "_1", "+1", "x", "1x", "1.5", "-1", "0", "99999999999"}) {
    EXPECT_THROW(decode_job_states(std::string(R"({"jobs":[{"job_id":")") + name + R"(","state":["PENDING"]}]})"),
                 json::ShapeError)
        << name;
  }
}

TEST(SlurmEncode, ASubmit) {
  JobDescription job;
  job.name = "a\"b";
  job.nodes = 2;
  job.memory_per_node = 0;
  job.time_limit = 10;
  job.exclusive = true;
  job.required_nodes = std::vector<std::string>{"n1", "n2"};
  EXPECT_EQ(encode_submit(job),
            R"({"job":{"name":"a\"b","nodes":"2","memory_per_node":{"set":true,"number":0},)"
            R"("time_limit":{"set":true,"number":10},"required_nodes":["n1","n2"],"shared":["none"],)"
            R"("flags":["EXTERNAL_JOB"],"current_working_directory":"/tmp"}})");
  const std::string placeholder = encode_placeholder(job);
  EXPECT_NE(placeholder.find(R"("requeue":false)"), std::string::npos) << placeholder;
  EXPECT_NE(placeholder.find("exec sleep infinity"), std::string::npos) << placeholder;
  EXPECT_EQ(placeholder.find("EXTERNAL_JOB"), std::string::npos) << placeholder;
  EXPECT_EQ(encode_update({}), "{}");
  JobDescription anywhere;
  anywhere.required_nodes = anywhere.excluded_nodes = std::vector<std::string>{};
  EXPECT_EQ(encode_update(anywhere), R"({"required_nodes":"","excluded_nodes":""})")
      << "an empty array changes nothing";
  NodeUpdate change;
  change.state = "DRAIN";
  change.features = std::vector<std::string>{"a"};
  EXPECT_EQ(encode_node_update(change), R"({"state":["DRAIN"],"features":["a"],"features_act":["a"]})");
  EXPECT_EQ(encode_new_node("NodeName=a State=EXTERNAL"), R"({"node_conf":"NodeName=a State=EXTERNAL"})");
}

}  // namespace
}  // namespace bascule::slurm
