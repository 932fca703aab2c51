//! `archive`: what is in a tar archive, unpacked under a directory of its own.

mod judge;
mod script;

use super::absent::removable;
use super::body::{Body, bare};
use super::support::{bad_value, owner_and_group, required, sha256_hex};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::{Code, Diag};
use crate::model::Value;
use crate::probe::{Observation, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "archive",
    summary: "What is in a tar archive, unpacked under a directory of its own.",
    example: include_str!("../examples/archive.yaml"),
    doc: "\
The archive is a file of the inventory's tree (`source`) or one that lies on the host (`path`): tar, plain or packed
with gzip, bzip2, xz or zstd, which the host's `tar` needs the program for. Zip archives are refused.

**`into` belongs to the archive.** It is replaced as a whole, so it must not be there, be empty, or hold what an earlier run
unpacked; a directory with something else in it blocks the step. To have `/opt/tool/bin` out of `tool-1.2/bin`, say
`into: /opt/tool` and `strip: 1`.

**Compared** are the SHA-256 of the archive, `strip`, owner and group with those of the last unpacking, which is noted in
`/var/lib/forge/archives`; then every member as it was unpacked: type, mode, owner, size, time of change of its content,
target of a link. Nothing to do reads `its 214 members are as they were unpacked`. What is missing or differs
is named. **Not noticed** is a changed content with the old size and the old time. Entries that the archive does not hold
are left alone, until it is unpacked again: the plan then names them as lost.

**A change** lists the archive first. Refused with the member's name, before anything is unpacked, are absolute names, `..`,
devices and pipes, set-user-id and set-group-id bits, links that lead outside of `into` or whose target climbs with
`..` behind another name, and members below a link. Then it is unpacked in a directory beside `into` that only root
may enter, given to `owner` and `group`, and renamed into its place: nobody sees half an archive. An archive on the host that others can
change is copied there first. Modes are those of the archive; the directory `into` itself has 0755.
The old directory is removed afterwards. Between the two renames nothing stands at `into` for a moment.

**Disruption** is what the step's `disruption` says. `restart_on` restarts a service when it was unpacked again.

**Removal** removes `into` with everything in it, if forge unpacked it.",
    fields: FIELDS,
    build,
};

const FIELDS: &[Field] = &[
    Field::required("into", Type::Path, "The directory that holds the members, and nothing else."),
    Field::optional("source", Type::LocalFile, "An archive of the inventory's tree. Excludes `path`."),
    Field::optional("path", Type::Path, "An archive that lies on the host. Excludes `source`."),
    Field::optional("sha256", Type::Line, "What the archive's SHA-256 must be, in hex."),
    Field::optional(
        "strip",
        Type::Int { min: 0, max: 32 },
        "How many leading parts of each name are cut off; what has no more is left out. Default `0`.",
    ),
    Field::optional("owner", Type::Name, "Owner of all members. Default `root`."),
    Field::optional("group", Type::Name, "Group of all members. Default `root`."),
];

/// Where the archive comes from.
#[derive(Debug)]
enum From {
    /// Its bytes and their digest.
    Tree(Body, String),
    /// A path on the host.
    Host(String),
}

#[derive(Debug)]
struct Archive {
    from: From,
    into: String,
    /// What the digest must be.
    pinned: Option<String>,
    strip: u64,
    owner: String,
    group: String,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let into = required(fields, "into")?.to_owned();
    removable(&into)
        .map_err(|diag| Diag { message: format!("`into` is replaced as a whole: {}", diag.message), ..diag })?;
    let (owner, group) = owner_and_group(fields)?;
    let (from, pinned) = (origin(fields, absent)?, pinned(fields)?);
    if let (From::Tree(_, found), Some(wanted)) = (&from, &pinned)
        && found != wanted
        && !absent
    {
        return Err(bad_value(format!("`source` has the SHA-256 {found}, not the one in `sha256`")));
    }
    if let From::Host(path) = &from
        && path.strip_prefix(&into).is_some_and(|rest| rest.starts_with('/'))
    {
        return Err(bad_value("the archive lies inside of `into`, which is replaced as a whole"));
    }
    Ok(Box::new(Archive {
        from,
        into,
        pinned,
        strip: fields.int("strip").unwrap_or(0).unsigned_abs(),
        owner,
        group,
        absent,
    }))
}

fn origin(fields: &Fields, absent: bool) -> Result<From, Diag> {
    match (fields.0.get("source"), fields.text("path")) {
        (Some(_), Some(_)) => Err(Diag::error(Code::Exclusive, "`source` and `path` exclude each other")),
        (None, Some(path)) => Ok(From::Host(path.to_owned())),
        (Some(value), None) => {
            let body = Body::from_value("source", value)?;
            if !absent {
                readable(body.bytes())?;
            }
            let digest = sha256_hex(body.bytes());
            Ok(From::Tree(body, digest))
        }
        (None, None) => Err(Diag::error(Code::MissingKey, "an archive needs `source` or `path`")),
    }
}

fn pinned(fields: &Fields) -> Result<Option<String>, Diag> {
    let Some(text) = fields.text("sha256") else { return Ok(None) };
    match text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => Ok(Some(text.to_ascii_lowercase())),
        false => Err(bad_value("`sha256` is not 64 hexadecimal digits").about("sha256")),
    }
}

/// Checks by its first bytes that an archive is one that `tar` knows by itself.
fn readable(bytes: &[u8]) -> Result<(), Diag> {
    const PACKED: [&[u8]; 4] = [b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"];
    if bytes.starts_with(b"PK") {
        return Err(
            bad_value("`source` is a zip archive; forge unpacks tar archives only").hint("pack it again with `tar`")
        );
    }
    let is_tar = bytes.get(257..262) == Some(b"ustar") || PACKED.iter().any(|magic| bytes.starts_with(magic));
    is_tar.then_some(()).ok_or_else(|| bad_value("`source` is no tar archive, plain or packed"))
}

impl Archive {
    /// Returns the name of the note about `into`.
    fn stamp(&self) -> String {
        format!("/var/lib/forge/archives/{}", &sha256_hex(self.into.as_bytes())[..32])
    }

    fn options(&self) -> String {
        format!("strip={} own={}:{}", self.strip, self.owner, self.group)
    }

    /// Returns the question about the archive itself.
    fn file(&self) -> Option<Probe> {
        match &self.from {
            From::Host(path) => Some(bare(path)),
            From::Tree(..) => None,
        }
    }

    /// Returns the question about what is unpacked.
    fn state(&self) -> Probe {
        Probe::Check {
            id: format!("members under `{}`", self.into),
            script: format!("{}{}", script::LIST, script::STATE),
            user: None,
            cwd: None,
            env: vec![("FORGE_INTO".to_owned(), self.into.clone()), ("FORGE_STAMP".to_owned(), self.stamp())],
            timeout_s: Some(script::STATE_LIMIT),
        }
    }
}

impl Resource for Archive {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.into.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = vec![bare(&self.into), self.state()];
        if !self.absent {
            probes.extend(self.file());
            probes.extend(super::support::parent(&self.into).map(bare));
        }
        probes
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let judged = match self.absent {
            true => self.judge_absent(seen),
            false => self.judge_present(seen, cx).map(|judgement| self.with_size(judgement, seen)),
        };
        judged.unwrap_or_else(|unknown| Judgement::unknown(&unknown))
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        let body = match self.absent {
            true => self.remove(),
            false => self.unpack(judgement, cx),
        };
        Action { body, long: false, explain: script::EXPLAIN }
    }

    fn desired(&self) -> Value {
        if self.absent {
            return json!({ "path": self.into, "absent": true });
        }
        let from = match &self.from {
            From::Tree(_, digest) => json!({ "sha256": digest }),
            From::Host(path) => json!({ "path": path, "sha256": self.pinned }),
        };
        json!({ "into": self.into, "from": from, "strip": self.strip, "owner": self.owner, "group": self.group })
    }

    fn provides(&self) -> Vec<Provision> {
        (!self.absent).then(|| Provision::Path(self.into.clone())).into_iter().collect()
    }

    /// The note is written anew with each unpacking, and never else.
    fn inputs(&self) -> Vec<String> {
        vec![self.stamp()]
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![("path", self.into.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &[(&'static str, Value)]) -> String {
        build(&Fields(fields.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let into = ("into", json!("/opt/x"));
        assert_eq!(refused(std::slice::from_ref(&into)), "an archive needs `source` or `path`");
        assert_eq!(
            refused(&[into.clone(), ("source", json!("PK\u{3}\u{4}"))]),
            "`source` is a zip archive; forge unpacks tar archives only"
        );
        assert_eq!(refused(&[into.clone(), ("source", json!("text"))]), "`source` is no tar archive, plain or packed");
        assert_eq!(
            refused(&[into.clone(), ("path", json!("/srv/a.tar")), ("sha256", json!("12"))]),
            "`sha256` is not 64 hexadecimal digits"
        );
        assert_eq!(
            refused(&[into, ("path", json!("/opt/x/a.tar"))]),
            "the archive lies inside of `into`, which is replaced as a whole"
        );
    }

    #[test]
    fn what_a_host_needs_is_never_replaced() {
        assert_eq!(
            refused(&[("into", json!("/opt")), ("path", json!("/srv/a.tar"))]),
            "`into` is replaced as a whole: `/opt` is of the top level, which is never removed"
        );
        assert_eq!(
            refused(&[("into", json!("/usr/local")), ("path", json!("/srv/a.tar"))]),
            "`into` is replaced as a whole: `/usr/local` is a directory of the system, which is never removed"
        );
    }
}
