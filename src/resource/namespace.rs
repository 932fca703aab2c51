//! `namespace`: a namespace of a cluster.

use super::object::{Declared, Want, claim, former, judge};
use super::support::{bad_value, contents, object_state, required};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::model::{BlockClass, Disruption, Value, Verdict};
use crate::probe::{ObjectId, Observation, Probe};
use serde_json::{Map, json};

pub(super) const KIND: Kind = Kind {
    name: "namespace",
    summary: "A namespace of the cluster: labels and annotations.",
    example: include_str!("examples/namespace.yaml"),
    doc: "\
Runs through the cluster's API (see [`forge explain cluster`](../../cluster.md)), on no host.

**Compared** is what the API says that a server-side apply as `forge` would come to. Nothing to do says `Namespace web is
as declared`, and nothing is written. Labels and annotations that others set stay; what somebody added with `kubectl` or another
tool for people, and nobody declares, is found and taken out. A label that is not declared any more goes.

**Removal** is refused while anything stands in the namespace, and names it; with `contents: delete` all of it goes too. What
every namespace has does not count, nor what is going already: objects that are being deleted, and those whose owners are gone, as the
pods of a deleted Deployment are for a while. `default` and those of Kubernetes itself are never removed.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("name", Type::Name, "Name of the namespace."),
    Field::optional("labels", Type::Map(&Type::Text), "Labels it has."),
    Field::optional("annotations", Type::Map(&Type::Text), "Annotations it has."),
    Field::optional(
        "contents",
        Type::Enum(&["keep", "delete"]),
        "When it is removed: whether what stands in it may go too. Default `keep`: then only an empty one is removed.",
    ),
];

#[derive(Debug)]
struct Namespace {
    declared: Declared,
    /// Whether its contents may go with it.
    whole: bool,
    absent: bool,
}

/// Returns whether text can name an object of most kinds: a DNS label.
fn is_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= 63 && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-') && !name.is_empty()
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required(fields, "name")?.to_owned();
    if !is_label(&name) {
        return Err(bad_value(format!("`{name}` cannot name a namespace"))
            .hint("use small letters, digits and `-`, at most 63"));
    }
    if absent && (name == "default" || name.starts_with("kube-")) {
        return Err(bad_value(format!("`{name}` is never removed")));
    }
    let mut metadata = Map::from_iter([("name".to_owned(), json!(name))]);
    for part in ["labels", "annotations"] {
        if let Some(map) = fields.table(part).filter(|map| !map.is_empty()) {
            metadata.insert(part.to_owned(), Value::Object(map.clone()));
        }
    }
    let id = ObjectId { api_version: "v1".to_owned(), kind: "Namespace".to_owned(), namespace: None, name };
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    let whole = fields.text("contents") == Some("delete");
    Ok(Box::new(Namespace { declared: Declared { id, object }, whole, absent }))
}

impl Namespace {
    fn contents(&self) -> Probe {
        Probe::Contents { namespace: self.declared.id.name.clone() }
    }

    /// What stands in it keeps it.
    fn kept(&self, judgement: Judgement, seen: &Observation, cx: &Context<'_>) -> Judgement {
        if judgement.verdict != Verdict::Change || self.whole {
            return judgement;
        }
        let contents = match contents(seen, &self.contents()) {
            Ok(contents) => contents,
            Err(why) => return Judgement { basis: judgement.basis, ..Judgement::unknown(&why) },
        };
        if contents.first.is_empty() {
            return judgement;
        }
        // An earlier step may take away what stands there.
        if cx.predicted.is_some_and(|predicted| predicted.after.is_some()) {
            return judgement.predicted();
        }
        let more = if contents.more { " and more" } else { "" };
        let reason = format!("it is not empty: {}{more}", contents.first.join(", "));
        Judgement::blocked(BlockClass::Busy, reason, judgement.basis)
            .hint("remove these first, or say `contents: delete` where all of it may go")
    }
}

impl Resource for Namespace {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.declared.id.name.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![self.declared.probe()];
        probes.extend((self.absent && !self.whole).then(|| self.contents()));
        probes
    }

    fn former(&self, record: &Value) -> Vec<Probe> {
        former(record, std::slice::from_ref(&self.declared))
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let objects = std::slice::from_ref(&self.declared);
        // All that is in it goes too.
        let disruption = if self.absent && self.whole { Disruption::D1 } else { Disruption::D0 };
        let judgement = judge(&Want { objects, absent: self.absent, wait: None, disruption }, seen, cx);
        match self.absent && object_state(seen, &self.declared.probe()).is_ok() {
            true => self.kept(judgement, seen, cx),
            false => judgement,
        }
    }

    fn act(&self, _judgement: &Judgement, _cx: &Context<'_>) -> Action {
        Action::default()
    }

    fn desired(&self) -> Value {
        let mut desired = json!({ "object": self.declared.object });
        if self.absent {
            desired["absent"] = json!(true);
        }
        desired
    }

    fn provides(&self) -> Vec<Provision> {
        if self.absent { Vec::new() } else { self.declared.provides() }
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![claim(&self.declared.id)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, absent: bool) -> String {
        let fields = Fields([("name", json!(name))].into_iter().collect());
        build(&fields, absent).unwrap_err().message
    }

    #[test]
    fn what_cannot_be_a_namespace_is_refused() {
        assert_eq!(refused("Web", false), "`Web` cannot name a namespace");
        assert_eq!(refused("-a", false), "`-a` cannot name a namespace");
        assert_eq!(refused("kube-system", true), "`kube-system` is never removed");
    }
}
