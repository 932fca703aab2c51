//! `absent`: nothing stands at a path.

use super::body::{bare, type_words};
use super::shell;
use super::support::{bad_value, path_state};
use super::{Action, Change, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::{Code, Diag};
use crate::model::{BlockClass, Disruption, Value};
use crate::probe::{Observation, PathInfo, PathState, PathType, Probe, Unknown};
use crate::script::Fragment;
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "absent",
    summary: "Nothing stands at a path, or at several.",
    example: include_str!("examples/absent.yaml"),
    doc: "\
For what a package, an older recipe or a hand has left. What a recipe makes itself is removed by that recipe, with
`ensure: absent` or `otherwise: absent`.

**Compared** is whether something stands at each path. Nothing to do reads `nothing is at PATH, as declared`. Paths are
named one by one: there are no patterns, which could take along what nobody thought of.

**A change** removes files, links (never their targets) and special files; a file is kept under
`/var/lib/forge/backups/RUN/PATH` unless `backup: false`. A directory blocks the step unless `recursive: true`, which
removes it with everything in it, without a copy. If a file system is mounted in it, nothing is removed at all.

**Never removed** are `/`, what stands directly in it (`/etc`), the directories of the system (`/usr/lib`, `/var/log`,
`/etc/ssh` and the like) and forge's own.

**Removal** of the recipe does nothing: forge does not bring back what it removed.",
    fields: &[
        Field::optional("path", Type::Path, "The path. Excludes `paths`."),
        Field::optional("paths", Type::List(&Type::Path), "Several paths. Excludes `path`."),
        Field::optional("recursive", Type::Bool, "Whether a directory goes with everything in it. Default `false`."),
        Field::optional("backup", Type::Bool, "Whether files are kept on the host. Default `true`."),
    ],
    build,
};

/// Without these no host is one any more. Others of their folders may be removed.
const VITAL: &[&str] = &[
    "/boot/efi",
    "/boot/grub",
    "/etc/apt",
    "/etc/default",
    "/etc/init.d",
    "/etc/pam.d",
    "/etc/security",
    "/etc/ssh",
    "/etc/ssl",
    "/etc/sudoers.d",
    "/etc/systemd",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var/cache",
    "/var/lib",
    "/var/lib/dpkg",
    "/var/lib/forge",
    "/var/lib/rpm",
    "/var/lib/systemd",
    "/var/log",
    "/var/spool",
    "/var/tmp",
];

#[derive(Debug)]
struct Absent {
    paths: Vec<String>,
    recursive: bool,
    backup: bool,
    /// The recipe itself is removed: nothing is brought back.
    idle: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let paths = match (fields.text("path"), fields.texts("paths")) {
        (Some(_), Some(_)) => return Err(Diag::error(Code::Exclusive, "`path` and `paths` exclude each other")),
        (Some(path), None) => vec![path.to_owned()],
        (None, Some(paths)) if !paths.is_empty() => paths,
        (None, _) => return Err(Diag::error(Code::MissingKey, "an `absent` step needs `path` or `paths`")),
    };
    paths.iter().try_for_each(|path| removable(path))?;
    Ok(Box::new(Absent {
        paths,
        recursive: fields.bool("recursive").unwrap_or(false),
        backup: fields.bool("backup").unwrap_or(true),
        idle: absent,
    }))
}

/// Refuses what no host can do without.
pub(super) fn removable(path: &str) -> Result<(), Diag> {
    if path.matches('/').count() < 2 {
        return Err(bad_value(format!("`{path}` is of the top level, which is never removed")));
    }
    if VITAL.contains(&path) {
        return Err(bad_value(format!("`{path}` is a directory of the system, which is never removed"))
            .hint("name what is in it and is to go"));
    }
    Ok(())
}

impl Absent {
    /// Returns what stands at the paths.
    fn left<'a>(&'a self, seen: &'a Observation) -> Result<Vec<(&'a str, &'a PathInfo)>, Unknown> {
        let mut left = Vec::new();
        for path in &self.paths {
            match path_state(seen, &bare(path)) {
                Ok(PathState::Absent) => {}
                Ok(PathState::Present(info)) => left.push((path.as_str(), info)),
                Err(unknown) => return Err(Unknown { why: format!("`{path}`: {}", unknown.why), ..unknown }),
            }
        }
        Ok(left)
    }

    fn judge_left(&self, left: &[(&str, &PathInfo)]) -> Judgement {
        let seen = |(path, info): &(&str, &PathInfo)| {
            ((*path).to_owned(), json!({ "type": info.kind, "target": info.target, "content": info.sha256 }))
        };
        let basis = Value::Object(left.iter().map(seen).collect());
        if left.is_empty() {
            return Judgement::ok(format!("nothing is at {}, as declared", super::support::ticked(&self.paths)), basis);
        }
        let directory = left.iter().find(|(_, info)| info.kind == PathType::Directory);
        if let Some((path, _)) = directory.filter(|_| !self.recursive) {
            return Judgement::blocked(BlockClass::Host, format!("`{path}` is a directory"), basis)
                .hint("`recursive: true` removes it with everything in it");
        }
        let change = |(path, info): &(&str, &PathInfo)| match info.kind {
            PathType::Directory => Change::new("directory", Some(&format!("{path}, with everything in it")), None),
            PathType::Symlink => Change::new("link", Some(&format!("{path}, a {}", type_words(info))), None),
            PathType::File => Change::new("file", Some(&format!("{path}, {} bytes", info.size)), None),
            PathType::Other => Change::new("special file", Some(path), None),
        };
        let names: Vec<&str> = left.iter().map(|(path, _)| *path).collect();
        let verb = if names.len() == 1 { "exists" } else { "exist" };
        let reason = format!("{} {verb}", super::support::ticked(&names));
        Judgement::change(reason, left.iter().map(change).collect(), Disruption::D0, basis)
    }

    /// Each path is removed as what it was judged to be.
    fn action(&self, judgement: &Judgement, run: &str) -> Fragment {
        let kind = |path: &str| judgement.basis[path]["type"].as_str().map(str::to_owned);
        let one = |path: &String| match kind(path).as_deref() {
            None => None,
            Some("directory") => Some(shell::remove_tree(path)),
            Some(kind) => Some(shell::remove_file(path, run, self.backup && kind == "file")),
        };
        let removals: Vec<Fragment> = self.paths.iter().filter_map(one).collect();
        let mut action = Fragment::new();
        for (number, removal) in removals.into_iter().enumerate() {
            let before = if number == 0 { Fragment::new() } else { Fragment::new().code("[ $? -eq 0 ] &&\n") };
            action = action.then(before).then(removal);
        }
        action
    }
}

const EXPLAIN: &[(&str, &str)] = &[
    shell::NOT_FOLLOWED,
    ("is a directory", "it has become a directory since it was looked at; run forge again"),
    ("a file system is mounted", "unmount it first"),
    ("Device or resource busy", "it is a mount point: unmount it first"),
    ("Operation not permitted", "it may be immutable (`lsattr`)"),
    ("Read-only file system", "the file system is mounted read-only; look for I/O errors in the kernel log"),
];

impl Resource for Absent {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        match self.paths.as_slice() {
            [first, _, ..] => format!("{first} and {} more", self.paths.len() - 1),
            _ => self.paths.concat(),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        if self.idle { Vec::new() } else { self.paths.iter().map(|path| bare(path)).collect() }
    }

    fn judge(&self, seen: &Observation, _cx: &Context<'_>) -> Judgement {
        if self.idle {
            return Judgement::ok("what this step removed is not brought back", json!({}));
        }
        match self.left(seen) {
            Ok(left) => self.judge_left(&left),
            Err(unknown) => Judgement::unknown(&unknown),
        }
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        Action { body: self.action(judgement, cx.run), long: false, explain: EXPLAIN }
    }

    fn desired(&self) -> Value {
        json!({ "paths": self.paths, "absent": true })
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }

    fn inputs(&self) -> Vec<String> {
        self.paths.clone()
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        if self.idle { Vec::new() } else { self.paths.iter().map(|path| ("path", path.clone())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &[(&'static str, Value)]) -> String {
        build(&Fields(fields.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn what_a_host_needs_is_never_removed() {
        assert_eq!(refused(&[("path", json!("/etc"))]), "`/etc` is of the top level, which is never removed");
        assert_eq!(
            refused(&[("paths", json!(["/tmp/x", "/usr/lib"]))]),
            "`/usr/lib` is a directory of the system, which is never removed"
        );
    }

    #[test]
    fn one_way_to_name_paths() {
        assert_eq!(refused(&[]), "an `absent` step needs `path` or `paths`");
        assert_eq!(refused(&[("paths", json!([]))]), "an `absent` step needs `path` or `paths`");
        assert_eq!(
            refused(&[("path", json!("/a/b")), ("paths", json!(["/a/b"]))]),
            "`path` and `paths` exclude each other"
        );
    }
}
