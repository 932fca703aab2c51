//! Objects in a namespace, which are deleted with it.

use super::ClusterApi;
use super::request_error::ApiRequestError;
use super::served_kinds::{ApiCollection, ApiKindCache};
use crate::model::Value;
use crate::object::NamespaceContents;
use std::collections::BTreeSet;

/// Maximum number of objects that are named.
const MAX_SHOWN_OBJECTS: usize = 5;

/// Maximum number of objects without owners that are named; the last entry then says that there are more.
const MAX_ROOTS: usize = 200;

impl ClusterApi {
    /// Lists the objects of every namespaced kind.
    pub(super) async fn list_namespace_contents(
        &self,
        namespace: &str,
        served: &ApiKindCache,
    ) -> Result<NamespaceContents, ApiRequestError> {
        let mut found = NamespaceListing::default();
        for api_version in self.list_preferred_versions().await? {
            for kind in self.list_kinds(&api_version, served).await?.into_iter().flatten() {
                let listed = kind.verbs.iter().any(|verb| verb == "list");
                if !kind.namespaced || !listed || kind.name.contains('/') || is_transient_kind(&kind.kind) {
                    continue;
                }
                let place = ApiCollection::new(&api_version, &kind.name, true);
                match self.list_objects(&place, Some(namespace), None, None).await {
                    Err(refusal) if refusal.has_code(404) || refusal.has_code(405) => {}
                    items => found.add_objects(&api_version, &kind.kind, &items?),
                }
            }
        }
        Ok(found.summarize_contents())
    }
}

/// All listed objects.
#[derive(Default)]
struct NamespaceListing {
    /// Group and kind of the kinds that were listed completely.
    kinds: BTreeSet<(String, String)>,
    objects: Vec<NamespaceObject>,
}

struct NamespaceObject {
    uid: String,
    /// `Deployment front`.
    told: String,
    usual: bool,
    /// Whether it is being deleted together with its dependents.
    ends: bool,
    /// Whether it is being deleted.
    deleting: bool,
    owners: Vec<NamespaceObjectOwner>,
}

struct NamespaceObjectOwner {
    kind: (String, String),
    uid: String,
}

impl NamespaceListing {
    fn add_objects(&mut self, api_version: &str, kind: &str, items: &[Value]) {
        self.kinds.insert((api_group(api_version), kind.to_owned()));
        self.objects.extend(items.iter().map(|item| parse_namespace_object(kind, item)));
    }

    /// Returns the objects that stay: leaves out those that are being deleted, and those that the garbage collector
    /// removes because their owners are gone.
    fn summarize_contents(&self) -> NamespaceContents {
        let mut here: BTreeSet<&str> =
            self.objects.iter().filter(|one| !one.ends).map(|one| one.uid.as_str()).collect();
        loop {
            let stays = |one: &&NamespaceObject| here.contains(one.uid.as_str()) && !self.is_garbage(one, &here);
            let left: BTreeSet<&str> = self.objects.iter().filter(stays).map(|one| one.uid.as_str()).collect();
            if left == here {
                break;
            }
            here = left;
        }
        let mut contents = NamespaceContents::default();
        let kept = |one: &&NamespaceObject| here.contains(one.uid.as_str()) && !one.deleting && !one.usual;
        for one in self.objects.iter().filter(kept) {
            // The same object may be served by several groups.
            if !contents.first.contains(&one.told) {
                contents.first.push(one.told.clone());
            }
        }
        contents.roots = self.list_roots(&here);
        contents.more = contents.first.len() > MAX_SHOWN_OBJECTS;
        contents.first.truncate(MAX_SHOWN_OBJECTS);
        contents
    }

    /// Returns the objects that stay and that no other one owns.
    fn list_roots(&self, here: &BTreeSet<&str>) -> Vec<String> {
        let is_owned = |one: &NamespaceObject| one.owners.iter().any(|owner| here.contains(owner.uid.as_str()));
        let kept = self.objects.iter().filter(|one| here.contains(one.uid.as_str()) && !one.deleting && !one.usual);
        let roots: BTreeSet<&str> = kept.filter(|one| !is_owned(one)).map(|one| one.told.as_str()).collect();
        let more = (roots.len() > MAX_ROOTS).then(|| format!("{} more objects", roots.len() - MAX_ROOTS));
        roots.into_iter().take(MAX_ROOTS).map(str::to_owned).chain(more).collect()
    }

    /// Reports whether an object has owners and none of them exists. An owner of a kind that was not listed may exist.
    fn is_garbage(&self, object: &NamespaceObject, here: &BTreeSet<&str>) -> bool {
        let gone =
            |owner: &NamespaceObjectOwner| self.kinds.contains(&owner.kind) && !here.contains(owner.uid.as_str());
        !object.owners.is_empty() && object.owners.iter().all(gone)
    }
}

fn parse_namespace_object(kind: &str, item: &Value) -> NamespaceObject {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let name = text("/metadata/name");
    let finalizers = item.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    let deleting = !text("/metadata/deletionTimestamp").is_empty();
    let owners = item.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    NamespaceObject {
        uid: text("/metadata/uid").to_owned(),
        told: format!("{kind} {name}"),
        usual: is_default_object(kind, name),
        ends: deleting && !finalizers.into_iter().any(|finalizer| finalizer == "orphan"),
        deleting,
        owners: owners.map(parse_owner).collect(),
    }
}

fn parse_owner(reference: &Value) -> NamespaceObjectOwner {
    let text = |key: &str| reference[key].as_str().unwrap_or_default().to_owned();
    NamespaceObjectOwner { kind: (api_group(&text("apiVersion")), text("kind")), uid: text("uid") }
}

/// Returns the group of an API version: `apps` for `apps/v1`, empty for `v1`.
fn api_group(api_version: &str) -> String {
    api_version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default()
}

/// Reports whether objects of the kind come and go with other objects.
fn is_transient_kind(kind: &str) -> bool {
    matches!(kind, "Event" | "Lease" | "Endpoints" | "EndpointSlice" | "ControllerRevision" | "PodMetrics")
}

/// Reports whether every namespace has this object.
fn is_default_object(kind: &str, name: &str) -> bool {
    match kind {
        "ServiceAccount" => name == "default",
        // The second one is OpenShift's.
        "ConfigMap" => matches!(name, "kube-root-ca.crt" | "openshift-service-ca.crt"),
        "Secret" => name.starts_with("default-token-"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An object of `apps/v1` with the uid of its name, owned by those of `owners`: `kind/uid`.
    fn owned_object(name: &str, owners: &[&str]) -> Value {
        let owner = |owner: &&str| {
            let (kind, uid) = owner.split_once('/').unwrap();
            json!({ "apiVersion": if kind == "Policy" { "x.test/v1" } else { "apps/v1" }, "kind": kind, "uid": uid })
        };
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        json!({ "metadata": { "name": name, "uid": name, "ownerReferences": owners } })
    }

    fn summarize_kinds(kinds: &[(&str, &[Value])]) -> String {
        let mut found = NamespaceListing::default();
        kinds.iter().for_each(|(kind, items)| {
            let version = if *kind == "Pod" || *kind == "ConfigMap" { "v1" } else { "apps/v1" };
            found.add_objects(version, kind, items);
        });
        found.summarize_contents().first.join(", ")
    }

    #[test]
    fn dependents_of_a_deleted_owner_are_not_listed() {
        let (set, pod) = (owned_object("set", &["Deployment/front"]), owned_object("pod", &["ReplicaSet/set"]));
        let all = |deployments: &[Value]| {
            summarize_kinds(&[
                ("Pod", std::slice::from_ref(&pod)),
                ("Deployment", deployments),
                ("ReplicaSet", std::slice::from_ref(&set)),
            ])
        };
        assert_eq!(all(&[owned_object("front", &[])]), "Pod pod, Deployment front, ReplicaSet set");
        let mut found = NamespaceListing::default();
        found.add_objects("v1", "Pod", std::slice::from_ref(&pod));
        found.add_objects("apps/v1", "Deployment", &[owned_object("front", &[])]);
        found.add_objects("apps/v1", "ReplicaSet", std::slice::from_ref(&set));
        assert_eq!(found.summarize_contents().roots, ["Deployment front"]);
        assert_eq!(all(&[]), "", "no owner is left");
        let mut deleted = owned_object("front", &[]);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-22T19:00:00Z");
        assert_eq!(all(&[deleted.clone()]), "");
        deleted["metadata"]["finalizers"] = json!(["orphan"]);
        assert_eq!(all(&[deleted]), "Pod pod, ReplicaSet set", "orphan deletion keeps the dependents");
    }

    #[test]
    fn dependents_of_an_unlisted_owner_are_listed() {
        let sets = [
            owned_object("a", &["Policy/elsewhere"]),
            owned_object("b", &["DaemonSet/gone", "ReplicaSet/c"]),
            owned_object("c", &[]),
        ];
        assert_eq!(summarize_kinds(&[("ReplicaSet", &sets)]), "ReplicaSet a, ReplicaSet b, ReplicaSet c");
        assert_eq!(
            summarize_kinds(&[("ReplicaSet", &sets[..2]), ("DaemonSet", &[])]),
            "ReplicaSet a",
            "both owners are gone"
        );
    }

    #[test]
    fn default_objects_are_ignored_and_the_list_is_limited() {
        let maps: Vec<Value> = ["kube-root-ca.crt", "openshift-service-ca.crt", "a", "b", "c", "d", "e", "f"]
            .iter()
            .map(|n| owned_object(n, &[]))
            .collect();
        let mut found = NamespaceListing::default();
        found.add_objects("v1", "ConfigMap", &maps);
        let contents = found.summarize_contents();
        assert_eq!((contents.first.len(), contents.more), (5, true));
        assert_eq!(contents.first[0], "ConfigMap a");
    }
}
