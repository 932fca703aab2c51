//! Images that objects need: a mirror must provide them.

use crate::model::Value;
use std::collections::BTreeSet;

/// Returns every image in the objects, sorted.
pub fn collect_images<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Vec<String> {
    let mut found = BTreeSet::new();
    objects.into_iter().for_each(|object| collect_images_in(object, &mut found));
    found.into_iter().collect()
}

fn collect_images_in(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_images_in(item, found)),
        Value::Object(map) => {
            found.extend(find_image_reference(map));
            map.values().for_each(|value| collect_images_in(value, found));
        }
        _ => {}
    }
}

/// Reads `image`, alone or with `repository` and `version` next to it, as operators write it in their custom resources.
fn find_image_reference(map: &serde_json::Map<String, Value>) -> Option<String> {
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
}
