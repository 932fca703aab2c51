//! Images that objects need: a mirror must provide them.

use crate::model::Value;
use std::collections::{BTreeMap, BTreeSet};

type Fields = serde_json::Map<String, Value>;

/// Returns every image that the objects run, sorted. Operands that are disabled run none.
pub fn collect_images<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Vec<String> {
    list_images(objects).into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the source of each image that comes from a mirror: `objects` and `upstream` are the same ones, with and
/// without the mirror. Objects that differ otherwise have no sources.
pub fn pair_image_sources<'o>(
    objects: impl IntoIterator<Item = &'o Value>,
    upstream: impl IntoIterator<Item = &'o Value>,
) -> BTreeMap<String, String> {
    let (mirrored, sources) = (list_images(objects), list_images(upstream));
    match mirrored.len() == sources.len() {
        true => mirrored.into_iter().zip(sources).filter(|(image, source)| image != source).collect(),
        false => BTreeMap::new(),
    }
}

/// Returns the image that an image in a mirror is a copy of. `mirrors` are registries and paths, each with those of its
/// sources; `.` is Docker Hub without a path, as `dirname` of `busybox:1.36` gives it.
pub fn find_image_source(mirrors: &[(String, String)], image: &str) -> Option<String> {
    mirrors.iter().find_map(|(mirror, source)| {
        let name = image.strip_prefix(mirror.trim_end_matches('/'))?.strip_prefix('/')?;
        Some(match source.trim_end_matches('/') {
            "." | "" => name.to_owned(),
            source => format!("{source}/{name}"),
        })
    })
}

/// Returns the images in the order of the objects, repeated ones too.
fn list_images<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Vec<String> {
    let mut found = Vec::new();
    objects.into_iter().for_each(|object| collect_images_in(object, &mut found));
    found
}

fn collect_images_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_images_in(item, found)),
        Value::Object(map) if is_disabled(map) => {}
        Value::Object(map) => {
            found.extend(find_image_reference(map));
            found.extend(find_image_variable(map));
            let runs = |key: &str| !is_idle_operand(map, key);
            map.iter().filter(|(key, _)| runs(key)).for_each(|(_, value)| collect_images_in(value, found));
        }
        _ => {}
    }
}

fn is_disabled(map: &Fields) -> bool {
    map.get("enabled") == Some(&Value::Bool(false))
}

/// The operands of a `ClusterPolicy` that run only with `sandboxWorkloads.enabled`, each with the only
/// `sandboxWorkloads.mode` in which it runs. Source: NVIDIA/gpu-operator controllers/state_manager.go
/// (`isStateEnabled`) at v25.10.1 and v26.7.0; `mode` exists from v26.3 on, where `kataManager` never runs.
const SANDBOX_OPERANDS: &[(&str, Option<&str>)] = &[
    ("ccManager", Some("kata")),
    ("kataManager", Some("never")),
    ("kataSandboxDevicePlugin", Some("kata")),
    ("sandboxDevicePlugin", Some("kubevirt")),
    ("vfioManager", None),
    ("vgpuDeviceManager", None),
    ("vgpuManager", None),
];

/// Reports whether the operand `key` does not run because of the sandbox settings next to it.
fn is_idle_operand(policy: &Fields, key: &str) -> bool {
    let Some(sandbox) = policy.get("sandboxWorkloads").and_then(Value::as_object) else { return false };
    let Some((_, needed)) = SANDBOX_OPERANDS.iter().find(|(name, _)| *name == key) else { return false };
    let mode = sandbox.get("mode").and_then(Value::as_str);
    let other_mode = mode.zip(*needed).is_some_and(|(mode, needed)| mode != needed);
    sandbox.get("enabled") != Some(&Value::Bool(true)) || other_mode
}

/// Reads `image`, alone or with `repository` and `version` next to it, as operators write it in their custom resources.
fn find_image_reference(map: &Fields) -> Option<String> {
    let text = |key: &str| map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let image = text("image")?;
    let Some(repository) = text("repository") else { return Some(image.to_owned()) };
    let image = format!("{}/{image}", repository.trim_end_matches('/'));
    Some(match text("version").or(text("tag")) {
        Some(digest) if digest.starts_with("sha256:") => format!("{image}@{digest}"),
        Some(tag) => format!("{image}:{tag}"),
        None => image,
    })
}

/// Reads an environment variable such as `OFED_INIT_CONTAINER_IMAGE`: operators get the images of the pods that they
/// create this way.
fn find_image_variable(map: &Fields) -> Option<String> {
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let (name, value) = (text("name")?, text("value")?);
    (name.ends_with("_IMAGE") && !value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn images_of_containers_and_of_operators_are_found() {
        let pod = json!({
            "initContainers": [{ "name": "i", "image": "b/i:1" }],
            "containers": [{ "name": "c", "image": "b/c@sha256:00" }, { "name": "d", "image": "b/i:1" }],
        });
        let policy = json!({
            "driver": { "repository": "r.example/nvidia", "image": "driver", "version": "550.90" },
            "x": { "repository": "r", "image": "why", "version": "sha256:11" },
        });
        let found = collect_images(&[
            json!({ "kind": "Deployment", "spec": { "template": { "spec": pod } } }),
            json!({ "kind": "ClusterPolicy", "spec": policy }),
        ]);
        assert_eq!(found, ["b/c@sha256:00", "b/i:1", "r.example/nvidia/driver:550.90", "r/why@sha256:11"]);
    }

    fn policy(sandbox: &Value) -> Value {
        json!({ "kind": "ClusterPolicy", "spec": {
            "sandboxWorkloads": sandbox,
            "driver": { "enabled": false, "image": "driver", "repository": "r", "version": "1",
                "manager": { "image": "driver-manager", "repository": "r", "version": "1" } },
            "toolkit": { "enabled": true, "image": "toolkit", "repository": "r", "version": "1" },
            "validator": { "image": "validator", "repository": "r", "version": "1" },
            "vgpuManager": { "enabled": false, "image": "vgpu-manager" },
            "vfioManager": { "enabled": true, "image": "vfio", "repository": "r", "version": "1",
                "driverManager": { "image": "driver-manager", "repository": "r", "version": "1" } },
            "kataManager": { "enabled": true, "image": "kata-manager", "repository": "r", "version": "1" },
            "sandboxDevicePlugin": { "enabled": true, "image": "kubevirt", "repository": "r", "version": "1" },
            "kataSandboxDevicePlugin": { "enabled": true, "image": "kata", "repository": "r", "version": "1" },
        }})
    }

    #[test]
    fn operands_that_do_not_run_need_no_image() {
        let without = ["r/toolkit:1", "r/validator:1"];
        let kubevirt = ["r/driver-manager:1", "r/kubevirt:1", "r/toolkit:1", "r/validator:1", "r/vfio:1"];
        let kata = ["r/driver-manager:1", "r/kata:1", "r/toolkit:1", "r/validator:1", "r/vfio:1"];
        assert_eq!(collect_images(&[policy(&json!({ "enabled": false, "mode": "kubevirt" }))]), without);
        assert_eq!(collect_images(&[policy(&json!({}))]), without);
        assert_eq!(collect_images(&[policy(&json!({ "enabled": true, "mode": "kubevirt" }))]), kubevirt);
        assert_eq!(collect_images(&[policy(&json!({ "enabled": true, "mode": "kata" }))]), kata);
        // Releases before v26.3 have no mode.
        let all = collect_images(&[policy(&json!({ "enabled": true }))]);
        assert_eq!(
            all,
            [
                "r/driver-manager:1",
                "r/kata-manager:1",
                "r/kata:1",
                "r/kubevirt:1",
                "r/toolkit:1",
                "r/validator:1",
                "r/vfio:1"
            ]
        );
    }

    #[test]
    fn images_of_a_mirror_have_sources() {
        let pod = |registry: &str, more: &str| {
            let image = |name: &str| json!({ "image": format!("{registry}/{name}:1") });
            json!({ "containers": [image("a"), image("b"), { "image": more }] })
        };
        let paired = pair_image_sources(&[pod("m", "same:1")], &[pod("up", "same:1")]);
        assert_eq!(paired, [("m/a:1".to_owned(), "up/a:1".to_owned()), ("m/b:1".into(), "up/b:1".into())].into());
        assert_eq!(pair_image_sources(&[pod("m", "same:1")], &[json!({})]), BTreeMap::new());
    }

    #[test]
    fn image_in_a_mirror_has_the_path_of_its_source() {
        let source = |source: &str, image: &str| find_image_source(&[("m/x/".into(), source.into())], image);
        assert_eq!(source("nvcr.io/nvidia", "m/x/a:1").unwrap(), "nvcr.io/nvidia/a:1");
        assert_eq!(source(".", "m/x/busybox:1.36").unwrap(), "busybox:1.36");
        assert_eq!(source("nvcr.io/nvidia", "m/xy/a:1"), None);
    }

    #[test]
    fn images_in_environment_variables_are_found() {
        let env = json!([
            { "name": "OFED_INIT_CONTAINER_IMAGE", "value": "r/init:1" },
            { "name": "EMPTY_IMAGE", "value": "" },
            { "name": "IMAGE_PULL_POLICY", "value": "Always" },
            { "name": "OTHER_IMAGE", "valueFrom": {} },
        ]);
        let pod = json!({ "containers": [{ "name": "c", "image": "r/c:1", "env": env }] });
        assert_eq!(collect_images(&[json!({ "spec": pod })]), ["r/c:1", "r/init:1"]);
    }
}
