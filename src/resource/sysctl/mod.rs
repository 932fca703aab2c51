//! `sysctl`: a kernel setting, in force now and configured for the next boot, each judged apart.

mod config;
mod value;

use self::config::{Override, normal, spelled};
use super::body::{Body, Target, bare};
use super::parts::{Parts, part};
use super::shell;
use super::support::{bad_value, refuse_secrets, required, sysctl_state};
use super::{Action, Change, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::model::{BlockClass, Disruption, Value, Verdict};
use crate::probe::{Observation, Probe, SysctlState, SysctlValue, Unknown};
use crate::script::Fragment;
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "sysctl",
    summary: "A kernel setting: in force now, and configured for the next boot.",
    example: include_str!("../examples/sysctl.yaml"),
    doc: "\
**Compared**, each by itself, are

- **file**: the step's own file in `/etc/sysctl.d` (root, 0644), which holds this one line;
- **loaded**: the value under `/proc/sys`. Blanks and tabs count as one blank, numbers by their value (`0x10` is `16`).

Nothing to do reads `content, owner and mode are as declared; the kernel has 1`.

**A later line wins.** The snippets of `/etc`, `/run`, `/usr/local/lib` and `/usr/lib` are read as `systemd-sysctl` reads
them: by the name of the file, of equal names only the first folder's; `99-sysctl.conf` is where `/etc/sysctl.conf`
comes in. A line for the key itself counts more than a pattern, however late. Where a line after the step's own sets
another value, the next boot would not have what is declared: the step is **blocked**, and the file and line are named.
Remove the line in an earlier step, or choose a `file` that is read later.

**A change** sets the value first and writes the file then, so that a value which the kernel refuses is configured
nowhere. Other snippets are never edited.

**Pending**: the file is right, but the kernel has no such key (yet): the module that brings it is not loaded.
**Blocked** too is a value that differs where `/proc/sys` is read-only, as in most containers.

**Removal** removes the file and restores nothing: what the value was before is not known, so it stays until the next
boot, and the plan says so.",
    fields: &[
        Field::required(
            "key",
            Type::Line,
            "Name of the setting: `net.ipv4.ip_forward`, or with slashes where a part holds a dot: \
             `net/ipv4/conf/eth0.100/forwarding`.",
        ),
        Field::required("value", Type::Line, "Its value. Several numbers are separated by blanks."),
        Field::optional("file", Type::Path, "The step's own file. Default `/etc/sysctl.d/90-forge-KEY.conf`."),
    ],
    build,
};

const FOLDER: &str = "/etc/sysctl.d";

#[derive(Debug)]
struct Sysctl {
    /// The place under `/proc/sys`.
    place: String,
    value: String,
    target: Target,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    refuse_secrets(KIND.name, fields, "a kernel setting is no place for a secret")?;
    let key = required(fields, "key")?;
    let place = normal(key);
    let strange = |c: char| !(c.is_ascii_alphanumeric() || "_-./:@+".contains(c));
    if key.contains(strange) || !place.contains('/') || place.split('/').any(|p| matches!(p, "" | "." | "..")) {
        return Err(bad_value(format!("`{key}` is not the name of a kernel setting"))
            .hint("name one key, like `net.ipv4.ip_forward`; patterns are not supported"));
    }
    let value = match absent {
        true => fields.text("value").unwrap_or_default(),
        false => required(fields, "value")?,
    };
    let value = value::canonical(value);
    if value.is_empty() && !absent {
        return Err(bad_value(format!("the value of `{key}` is empty")));
    }
    let body = Body::new(format!("{} = {value}\n", spelled(&place)));
    let path = path(fields, &place)?;
    let target = Target { path, body, owner: "root".into(), group: "root".into(), mode: 0o644 };
    Ok(Box::new(Sysctl { place, value, target, absent }))
}

fn path(fields: &Fields, place: &str) -> Result<String, Diag> {
    let Some(path) = fields.text("file") else {
        return Ok(format!("{FOLDER}/90-forge-{}.conf", place.replace('/', ".")));
    };
    let name = path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/'));
    let good = name.is_some_and(|name| name.ends_with(".conf") && !name.contains('/') && !name.starts_with('.'));
    match good {
        true => Ok(path.to_owned()),
        false => Err(bad_value(format!("`{path}` would not be read: `file` is `{FOLDER}/NAME.conf`"))),
    }
}

impl Sysctl {
    fn probe(&self) -> Probe {
        Probe::Sysctl { key: self.place.clone() }
    }

    fn key(&self) -> String {
        spelled(&self.place)
    }

    fn judge_file(&self, state: &SysctlState, seen: &Observation, cx: &Context<'_>) -> Judgement {
        let file = self.target.judge(seen, cx, true);
        let Some(over) = config::overriding(&state.lines, &self.target.path, &self.place, &self.value) else {
            return file;
        };
        match cx.predicted.and_then(|p| p.after.as_deref()) {
            // The plan may be about to take it away; it is judged again when its turn comes.
            Some(_) if file.verdict == Verdict::Change => file.predicted(),
            Some(step) => {
                let why = format!("{} now, and `{step}` runs before", self.overridden(&over));
                let change = Change::new("override", Some(&over.place), None);
                Judgement::change(why, vec![change], Disruption::D0, basis(&file, &over)).predicted()
            }
            None => self.blocked(&file, &over),
        }
    }

    fn overridden(&self, over: &Override) -> String {
        format!("`{}` sets `{}` to `{}` after `{}`", over.place, self.key(), over.value, self.target.path)
    }

    fn blocked(&self, file: &Judgement, over: &Override) -> Judgement {
        let name = over.place.rsplit('/').next().unwrap_or_default().split(':').next().unwrap_or_default();
        let later = format!("{FOLDER}/{}-forge-{}.conf", after(name), self.place.replace('/', "."));
        Judgement::blocked(BlockClass::Host, self.overridden(over), basis(file, over)).hint(format!(
            "remove that line with a step before this one, or say `file: {later}`, which is read after it"
        ))
    }

    fn judge_loaded(&self, state: &SysctlState, cx: &Context<'_>) -> Judgement {
        match &state.value {
            SysctlValue::Unread { .. } => Judgement::unknown(&Unknown::new(format!("`{}` cannot be read", self.key()))),
            SysctlValue::Absent => self.no_key(cx),
            SysctlValue::Set { value, fixed } => self.compare(&value::canonical(value), *fixed),
        }
    }

    /// A module that an earlier step loads may bring the key.
    fn no_key(&self, cx: &Context<'_>) -> Judgement {
        let (key, basis) = (self.key(), json!({ "loaded": null }));
        if let Some(step) = cx.predicted.and_then(|p| p.after.as_deref()) {
            let reason = format!("the kernel has no `{key}` now, and `{step}` runs before");
            let change = Change::new("loaded", None, Some(&self.value));
            return Judgement::change(reason, vec![change], Disruption::D0, basis).predicted();
        }
        let reason = format!("configured; the kernel has no `{key}` now");
        Judgement { verdict: Verdict::Pending, ..Judgement::ok(reason, basis) }
            .hint("the module that brings the key is not loaded, or this kernel does not know it")
    }

    fn compare(&self, value: &str, fixed: bool) -> Judgement {
        let basis = json!({ "loaded": value });
        if value::same(value, &self.value) {
            return Judgement::ok(format!("the kernel has `{value}`"), basis);
        }
        let reason = format!("the kernel has `{value}`");
        if fixed {
            let reason = format!("{reason}, and `/proc/sys/{}` cannot be written here", self.place);
            return Judgement::blocked(BlockClass::Host, reason, basis)
                .hint("a container has a read-only `/proc/sys`: set it on the machine itself");
        }
        let change = Change::new("loaded", Some(value), Some(&self.value));
        Judgement::change(reason, vec![change], Disruption::D0, basis)
    }

    fn judge_removal(&self, seen: &Observation) -> Judgement {
        let file = self.target.judge_absent(seen);
        let says = match file.verdict {
            Verdict::Change => "the value in force stays until the next boot",
            Verdict::Ok => "the value in force is not looked at",
            _ => return file,
        };
        Judgement { reason: format!("{}; {says}", file.reason.raw()).into(), ..file }
    }

    fn load(&self) -> Fragment {
        let words = shell::private().word(format!("/proc/sys/{}", self.place)).word(&self.value);
        shell::close(words.code(LOAD)).code("[ $? -eq 0 ] &&\n")
    }

    fn write(&self, cx: &Context<'_>) -> Fragment {
        let folder = shell::close(shell::private().code(MAKE_FOLDER)).code("[ $? -eq 0 ] &&\n");
        folder.then(self.target.write(cx, true, ""))
    }
}

fn basis(file: &Judgement, over: &Override) -> Value {
    let mut basis = file.basis.clone();
    basis["overridden"] = json!({ "at": over.place, "value": over.value });
    basis
}

/// Returns a beginning of a name that is read after `name`.
fn after(name: &str) -> String {
    let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
    let next = digits.parse::<u32>().ok().filter(|n| digits.len() == 2 && *n < 99).map(|n| format!("{:02}", n + 1));
    next.unwrap_or_else(|| "zz".to_owned())
}

const LOAD: &str = r#"
printf '%s\n' "$2" > "$1" || fail "the kernel does not take '$2' for $1"
"#;

const MAKE_FOLDER: &str = r#"
[ -d /etc/sysctl.d ] || mkdir -m 0755 -- /etc/sysctl.d || fail "cannot make /etc/sysctl.d"
"#;

const EXPLAIN: &[(&str, &str)] = &[
    (
        "the kernel does not take",
        "the value is out of its range, or another setting stands in the way; nothing was configured",
    ),
    ("No space left on device", "the file system is full; the old file is untouched"),
];

impl Resource for Sysctl {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.key()
    }

    fn probes(&self) -> Vec<Probe> {
        match self.absent {
            true => vec![bare(&self.target.path)],
            false => vec![self.probe(), self.target.probe()],
        }
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        if self.absent {
            return self.judge_removal(seen);
        }
        match sysctl_state(seen, &self.probe()) {
            Ok(state) => Parts::default()
                .with("file", self.judge_file(state, seen, cx))
                .with("loaded", self.judge_loaded(state, cx))
                .judgement(),
            Err(unknown) => Judgement::unknown(&unknown),
        }
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        let body = match self.absent {
            true => shell::remove_file(&self.target.path, cx.run, true),
            false => {
                let load = part(judgement, "loaded").map_or(Fragment::new(), |_| self.load());
                let file = part(judgement, "file").map(|_| self.write(cx));
                load.then(file.unwrap_or_else(|| Fragment::new().code(":\n")))
            }
        };
        Action { body, long: false, explain: EXPLAIN }
    }

    fn desired(&self) -> Value {
        match self.absent {
            true => json!({ "key": self.place, "path": self.target.path, "absent": true }),
            false => json!({ "key": self.place, "value": self.value, "path": self.target.path }),
        }
    }

    fn provides(&self) -> Vec<Provision> {
        (!self.absent).then(|| Provision::Path(self.target.path.clone())).into_iter().collect()
    }

    fn inputs(&self) -> Vec<String> {
        vec![self.target.path.clone()]
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        vec![(KIND.name, self.key()), ("path", self.target.path.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &[(&'static str, &str)]) -> String {
        let fields = fields.iter().map(|(name, value)| (*name, json!(value))).collect();
        build(&Fields(fields), false).unwrap_err().message
    }

    #[test]
    fn names_values_and_files_are_checked() {
        assert_eq!(
            refused(&[("key", "net.ipv4.conf.*.forwarding"), ("value", "1")]),
            "`net.ipv4.conf.*.forwarding` is not the name of a kernel setting"
        );
        assert_eq!(
            refused(&[("key", "swappiness"), ("value", "1")]),
            "`swappiness` is not the name of a kernel setting"
        );
        assert_eq!(
            refused(&[("key", "net/../../etc/x"), ("value", "1")]),
            "`net/../../etc/x` is not the name of a kernel setting"
        );
        assert_eq!(refused(&[("key", "vm.swappiness"), ("value", " ")]), "the value of `vm.swappiness` is empty");
        assert_eq!(
            refused(&[("key", "vm.swappiness"), ("value", "1"), ("file", "/etc/sysctl.d/90-x")]),
            "`/etc/sysctl.d/90-x` would not be read: `file` is `/etc/sysctl.d/NAME.conf`"
        );
    }

    #[test]
    fn a_later_name_is_found() {
        for (name, later) in [("95-x.conf", "96"), ("99-sysctl.conf", "zz"), ("protect.conf", "zz"), ("100-x", "zz")] {
            assert_eq!(after(name), later);
            assert!(format!("{later}-forge-x.conf").as_str() > name, "{name}");
        }
    }
}
