#include "kube/decode.hpp"

namespace bascule::kube {

namespace {

void decode_template_spec(Value value, json::Interner& interner, Job& job) {
  value.fields([&](std::string_view key, Value field) {
    if (key != "resources") return;
    field.fields([&](std::string_view which, Value list) {
      if (which == "limits") decode_resources(list, interner, job.template_limits);
    });
  });
}

void decode_spec(Value value, json::Interner& interner, Job& job) {
  value.fields([&](std::string_view key, Value field) {
    if (key == "activeDeadlineSeconds") {
      job.active_deadline_seconds = field.integer();
    } else if (key == "template") {
      field.fields([&](std::string_view part, Value inner) {
        if (part == "spec") decode_template_spec(inner, interner, job);
      });
    }
  });
}

}  // namespace

std::shared_ptr<const Job> decode_job(std::string_view text, json::Interner& interner) {
  auto job = std::make_shared<Job>();
  json::hot::parse(text, [&](std::string_view key, Value value) {
    if (key == "metadata") {
      decode_meta(value, interner, job->meta);
      // Nobody asks for them, and a cluster may have a Job for each pod.
      job->meta.labels = {};
      job->meta.finalizers = {};
    } else if (key == "spec") {
      decode_spec(value, interner, *job);
    }
  });
  return job;
}

}  // namespace bascule::kube
