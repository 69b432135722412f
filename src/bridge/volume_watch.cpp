#include "bridge/volume_watch.hpp"

namespace bascule::bridge {

namespace {

const kube::Resource kClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
const kube::Resource kVolumes{"", "v1", "persistentvolumes", "PersistentVolume", false};
const kube::Resource kCsiNodes{"storage.k8s.io", "v1", "csinodes", "CSINode", false};
const kube::Resource kAttachments{"storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false};
const kube::Resource kClasses{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};

json::Value claim_patch(const kube::DynamicObject& claim, const std::string& node) {
  return json::Object{
      {"metadata", json::Object{{"resourceVersion", claim.meta.resource_version},
                                {"annotations", json::Object{{"volume.kubernetes.io/selected-node", node}}}}}};
}
json::Value volume_patch(const kube::DynamicObject& volume, const kube::DynamicObject& claim) {
  return json::Object{{"metadata", json::Object{{"resourceVersion", volume.meta.resource_version}}},
                      {"spec", json::Object{{"claimRef", json::Object{{"apiVersion", "v1"},
                                                                      {"kind", "PersistentVolumeClaim"},
                                                                      {"namespace", claim.meta.key.ns},
                                                                      {"name", claim.meta.key.name},
                                                                      {"uid", claim.meta.uid.str()}}}}}};
}

}  // namespace

VolumeWatch::VolumeWatch(kube::Client& kube, json::Interner& interner, Volumes& volumes, std::function<void()> changed)
    : kube_(kube),
      claims_(kube, {.resource = kClaims}, kube::decode_dynamic, interner),
      objects_(kube, {.resource = kVolumes}, kube::decode_dynamic, interner),
      classes_(kube, {.resource = kClasses}, kube::decode_dynamic, interner),
      csi_nodes_(kube, {.resource = kCsiNodes}, kube::decode_dynamic, interner),
      attachments_(kube, {.resource = kAttachments}, kube::decode_dynamic, interner) {
  volumes.set_known(false);
  claims_.on_change([&volumes, changed](const ObjectPtr& before, const ObjectPtr& after) {
    volumes.on_claim(before, after);
    changed();
  });
  objects_.on_change([&volumes, changed](const ObjectPtr& before, const ObjectPtr& after) {
    volumes.on_volume(before, after);
    changed();
  });
  classes_.on_change([&volumes, changed](const ObjectPtr& before, const ObjectPtr& after) {
    volumes.on_class(before, after);
    changed();
  });
  csi_nodes_.on_change(
      [&volumes](const ObjectPtr& before, const ObjectPtr& after) { volumes.on_csi_node(before, after); });
  attachments_.on_change([&volumes, changed](const ObjectPtr& before, const ObjectPtr& after) {
    volumes.on_attachment(before, after);
    if (!after) changed();
  });
}

void VolumeWatch::start() {
  claims_.start();
  objects_.start();
  classes_.start();
  csi_nodes_.start();
  attachments_.start();
}

Task<> VolumeWatch::stop() {
  co_await claims_.stop();
  co_await objects_.stop();
  co_await classes_.stop();
  co_await csi_nodes_.stop();
  co_await attachments_.stop();
}

Task<> VolumeWatch::make(Volumes::Binding binding, std::stop_token stop) {
  try {
    for (const Volumes::Take& take : binding.takes) {
      co_await kube_.patch(kVolumes, take.volume->meta.key, kube::PatchType::kMerge,
                           volume_patch(*take.volume, *take.claim), {}, {}, stop);
    }
    for (const ObjectPtr& claim : binding.provisions) {
      co_await kube_.patch(kClaims, claim->meta.key, kube::PatchType::kMerge, claim_patch(*claim, binding.node), {}, {},
                           stop);
    }
  } catch (const kube::Conflict&) {
  } catch (const kube::NotFound&) {
  }
}

}  // namespace bascule::bridge
