//! `file`: a regular file with its body, owner and mode.

use super::body::{Body, Target, bare, only_ownership};
use super::shell;
use super::support::{GROUP, OWNER, file_path, octal, owner_and_group};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::{Code, Diag};
use crate::model::Value;
use crate::probe::{Observation, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "file",
    summary: "A regular file with its content, owner and mode.",
    example: include_str!("examples/file.yaml"),
    doc: "\
The body is given as `content` (in the recipe), `template` (a file beside the recipe, rendered) or `source`
(a file beside the recipe, taken byte for byte, also binary).

**Compared** are type, SHA-256 of the body, owner, group and mode. Nothing to do reads
`content, owner and mode are as declared`. A body that holds a secret is compared by digest and never shown, and only
the owner may read the file where no `mode` is declared; `validate` warns of a declared one that lets every account read it.

**A change** writes the new file into a directory `.NAME.forge-RUN` beside the target, which only root may enter, gives it
its owner and mode, lets `validate` judge it, syncs it and renames it over the target: whoever opens the path sees the
whole old file or the whole new one. What a killed run left there is removed. When only owner or mode differ, the body is not
rewritten, unless others than root may write to the directory.

**`validate`** finds the candidate at `$FORGE_FILE`, with its owner and mode, and must not change it. That is
`.NAME.forge-RUN.new` next to the target, so that a relative `include` in it leads to the same files as in the target. A
systemd unit has its own name, in the directory `.NAME.forge-RUN`. Where others than root can replace a part of the
path, it is a copy with the file's own name, alone in a directory below `/run` that only root may enter: relative
includes are not found there.

A symbolic link or special file at the path is replaced by the file, and the plan says so; a directory is
never replaced. The previous body is kept under `/var/lib/forge/backups/RUN/PATH` unless `backup: false`.
Hard links, ACLs and extended attributes of the old file do not carry over.

**The directory** above must exist, or an earlier step must make it; forge makes no parents on the way.

**Removal** (`ensure: absent`, `otherwise: absent`) removes files, links and special files, never directories.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("path", Type::Path, "Where the file stands on the host."),
    Field::optional("content", Type::Text, "The body. Excludes `template` and `source`."),
    Field::optional("template", Type::LocalFile, "A file of the inventory's tree whose rendered text is the body."),
    Field::optional("source", Type::LocalFile, "A file of the inventory's tree whose bytes are the body."),
    OWNER,
    GROUP,
    Field::optional(
        "mode",
        Type::Mode,
        "Permission bits. Default `\"0644\"`, and `\"0600\"` where the body holds a secret.",
    ),
    Field::optional(
        "validate",
        Type::Text,
        "A shell command that must exit 0 before the new body goes live; `$FORGE_FILE` is the candidate's path: \
         next to the target, or below `/run` if users other than root can replace part of the path. \
         `visudo -cf \"$FORGE_FILE\"`, `sshd -t -f \"$FORGE_FILE\"`.",
    ),
    Field::optional("backup", Type::Bool, "Whether the previous body is kept on the host. Default `true`."),
];

/// What texts in the output of an action mean.
pub(super) const EXPLAIN: &[(&str, &str)] = &[
    shell::NOT_FOLLOWED,
    ("invalid user", "the owner does not exist on the host: add a `user` step before this one"),
    ("invalid group", "the group does not exist on the host: add a step that makes it before this one"),
    ("No space left on device", "the file system is full; the old file is untouched"),
    ("Read-only file system", "the file system is mounted read-only; look for I/O errors in the kernel log"),
    ("Operation not permitted", "the file may be immutable (`lsattr`)"),
];

#[derive(Debug)]
struct File {
    target: Target,
    validate: String,
    backup: bool,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let path = file_path(fields)?;
    let (owner, group) = owner_and_group(fields)?;
    let body = body(fields, absent)?;
    let mode = fields.mode("mode").unwrap_or(if body.is_secret() { 0o600 } else { 0o644 });
    Ok(Box::new(File {
        target: Target { path, body, owner, group, mode },
        validate: fields.text("validate").unwrap_or_default().to_owned(),
        backup: fields.bool("backup").unwrap_or(true),
        absent,
    }))
}

/// Reads the one field that holds the body; a file that is to be removed needs none.
fn body(fields: &Fields, absent: bool) -> Result<Body, Diag> {
    const BODIES: [&str; 3] = ["content", "template", "source"];
    let given: Vec<&str> = BODIES.into_iter().filter(|name| fields.has(name)).collect();
    match given.as_slice() {
        [] if absent => Ok(Body::new("")),
        [] => Err(Diag::error(Code::MissingKey, "a file needs one of `content`, `template` and `source`")
            .hint("an empty file is `content: \"\"`")),
        [one] => Body::from_value(one, &fields.0[*one]),
        more => Err(Diag::error(Code::Exclusive, format!("{} exclude each other", super::support::ticked(more)))),
    }
}

impl Resource for File {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.target.path.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        match self.absent {
            true => vec![bare(&self.target.path)],
            false => self.target.probes(),
        }
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        match self.absent {
            true => self.target.judge_absent(seen),
            false => self.target.judge(seen, cx, false),
        }
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        let target = &self.target;
        let body = match self.absent {
            true => shell::remove_file(&target.path, cx.run, self.backup),
            false if only_ownership(&judgement.changes) => target.give(cx),
            false => target.write(cx, self.backup, &self.validate),
        };
        Action { body, long: false, explain: EXPLAIN }
    }

    fn desired(&self) -> Value {
        match self.absent {
            true => json!({ "path": self.target.path, "absent": true }),
            false => self.target.desired(),
        }
    }

    fn provides(&self) -> Vec<Provision> {
        (!self.absent).then(|| Provision::Path(self.target.path.clone())).into_iter().collect()
    }

    fn caution(&self) -> Option<Diag> {
        let open = !self.absent && self.target.body.is_secret() && self.target.mode & 0o004 != 0;
        open.then(|| {
            let (path, mode) = (&self.target.path, octal(self.target.mode));
            Diag::warning(
                Code::BadValue,
                format!("`{path}` holds a secret, and mode {mode} lets every account read it"),
            )
            .hint("declare `mode: \"0600\"`, or `\"0640\"` with a `group` of its readers")
        })
    }

    fn inputs(&self) -> Vec<String> {
        vec![self.target.path.clone()]
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.target.path.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(entries: &[(&'static str, Value)]) -> Fields {
        Fields(entries.iter().cloned().collect())
    }

    fn refused(entries: &[(&'static str, Value)]) -> String {
        build(&fields(entries), false).unwrap_err().message
    }

    #[test]
    fn exactly_one_body() {
        assert_eq!(refused(&[("path", json!("/a"))]), "a file needs one of `content`, `template` and `source`");
        assert_eq!(
            refused(&[("path", json!("/a")), ("content", json!("")), ("source", json!(""))]),
            "`content` and `source` exclude each other"
        );
        assert!(build(&fields(&[("path", json!("/a"))]), true).is_ok());
    }

    #[test]
    fn a_secret_is_the_owners_alone_unless_a_mode_is_declared() {
        let mut secrets = crate::model::SecretStore::default();
        let secret = json!(format!("key={}", secrets.insert("key", "hunter2".to_owned().into()).0));
        let built = |content: &Value, mode: Option<i64>| {
            let mut all = vec![("path", json!("/a")), ("content", content.clone())];
            all.extend(mode.map(|mode| ("mode", json!(mode))));
            let file = build(&fields(&all), false).unwrap();
            (file.desired()["mode"].as_str().unwrap().to_owned(), file.caution().map(|diag| diag.message))
        };
        assert_eq!(built(&json!("plain"), None), ("0644".to_owned(), None));
        assert_eq!(built(&secret, None), ("0600".to_owned(), None));
        assert_eq!(built(&secret, Some(0o640)), ("0640".to_owned(), None));
        let why = "`/a` holds a secret, and mode 0644 lets every account read it";
        assert_eq!(built(&secret, Some(0o644)), ("0644".to_owned(), Some(why.to_owned())));
    }

    #[test]
    fn the_root_is_no_file() {
        assert_eq!(refused(&[("path", json!("/")), ("content", json!(""))]), "`/` is not a file");
    }

    #[test]
    fn bytes_come_as_base64() {
        let binary = fields(&[("path", json!("/a")), ("source", json!({ "base64": "AP8=" }))]);
        assert_eq!(body(&binary, false).unwrap().bytes(), b"\x00\xff");
        let broken = fields(&[("path", json!("/a")), ("source", json!({ "base64": "%" }))]);
        assert_eq!(body(&broken, false).unwrap_err().message, "`source` is neither text nor bytes");
    }
}
