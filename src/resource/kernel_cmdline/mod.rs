//! `kernel_cmdline`: arguments of the kernel, those that it runs with and those of the next boot judged apart.

mod grub;
mod judge;
mod words;

use self::words::Wanted;
use super::body::{Body, Target};
use super::parts::part;
use super::shell;
use super::support::{bad_value, cmdline_state, refuse_secrets};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::model::Value;
use crate::probe::{Observation, Probe};
use crate::script::Fragment;
use serde_json::json;

/// The part of a judgement that is about what the boot loader gives the next kernel.
const NEXT: &str = "next boot";

pub(super) const KIND: Kind = Kind {
    name: "kernel_cmdline",
    summary: "Arguments of the kernel: loaded now, and configured for the next boot.",
    example: include_str!("../examples/kernel_cmdline.yaml"),
    doc: "\
**Compared**, each by itself, are

- **file**, on Debian and Ubuntu: the step's own file among GRUB's settings (root, 0644). It takes what earlier files set of
  the same names out and adds the declared words at the end;
- **next boot**: the boot loader's menu, `/boot/grub/grub.cfg` or what `grubby --info=ALL` says. Every entry of Linux must have
  the arguments, whichever is booted; entries for repairs and those of other systems are left out;
- **loaded**: `/proc/cmdline`.

Words are told apart as the kernel does: `-` and `_` are the same in names, what stands between double quotes belongs
together, what follows `--` is not the kernel's. Of several words of one name the last one counts; several that are declared
(`console=tty0`, `console=ttyS0,115200`) must be the last ones of that name, in that order. Nothing to do reads `content, owner
and mode are as declared; the next boot has them as declared (2 entries); the running kernel has them as declared`.

**Pending** is what is configured and not loaded: `configured, not loaded: …; needs a reboot`. This follows from what is seen,
whoever configured it and whenever. It comes into force with the one reboot of the host's window, where `rollout.reboot` is `allow`
(see [rollout](../../rollout.md)); a container is not rebooted for it, since it runs with the arguments of its machine.

**Blocked** is a file of `/etc/default/grub.d` that is read after the step's own and says something else: file and line are
named. So is a host on which forge cannot configure the next boot: a container, systemd-boot, a kernel that a hypervisor or
a boot server brings. If the running kernel has the arguments there, the step is **unknown**, since nobody knows of the next boot.

**A change** writes the file and runs `update-grub`, or runs `grubby --update-kernel=ALL`, which settles later kernels too.
It is D0: what it does to the host comes with a reboot.

**Removal** takes the file away and makes the menu anew, or takes the step's words out of all entries. Words that another
file sets too stay, and what is loaded stays until the next boot. Arguments that were declared `absent` do not come back
with `grubby`.

What the proof below shows on real hosts is GRUB's own menu, made by the real `update-grub`; that of RHEL and its `grubby`
is pinned by recorded cases, and the command line of the test hosts' kernel is laid over the machine's.",
    fields: &[
        Field::optional(
            "args",
            Type::List(&Type::Line),
            "Arguments that the kernel has, one word each: `iommu=pt`, `nosmt`.",
        ),
        Field::optional(
            "absent",
            Type::List(&Type::Line),
            "Arguments that it does not have: a name means every value of it, `iommu=soft` that value alone.",
        ),
        Field::optional(
            "file",
            Type::Path,
            "The step's own file on Debian and Ubuntu; a second step needs its own. Default \
             `/etc/default/grub.d/60-forge.cfg`.",
        ),
    ],
    build,
};

#[derive(Debug)]
struct Cmdline {
    wanted: Wanted,
    target: Target,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    refuse_secrets(KIND.name, fields, "the kernel command line is no place for a secret")?;
    let wanted = Wanted::new(fields.texts("args").unwrap_or_default(), fields.texts("absent").unwrap_or_default())?;
    let path = path(fields.text("file"))?;
    let body = Body::new(grub::body(&wanted));
    let target = Target { path, body, owner: "root".into(), group: "root".into(), mode: 0o644 };
    Ok(Box::new(Cmdline { wanted, target, absent }))
}

fn path(given: Option<&str>) -> Result<String, Diag> {
    let Some(path) = given else { return Ok(format!("{}/60-forge.cfg", grub::FOLDER)) };
    let name = path.strip_prefix(grub::FOLDER).and_then(|rest| rest.strip_prefix('/'));
    match name.is_some_and(|name| name.ends_with(".cfg") && !name.contains('/') && !name.starts_with('.')) {
        true => Ok(path.to_owned()),
        false => Err(bad_value(format!("`{path}` would not be read: `file` is `{}/NAME.cfg`", grub::FOLDER))),
    }
}

impl Cmdline {
    fn write(&self, cx: &Context<'_>) -> Fragment {
        if self.absent {
            return shell::remove_file(&self.target.path, cx.run, true);
        }
        let folder = shell::close(shell::private().code(MAKE_FOLDER)).code("[ $? -eq 0 ] &&\n");
        folder.then(self.target.write(cx, true, ""))
    }

    fn update_grub(&self, judgement: &Judgement, cx: &Context<'_>) -> Fragment {
        let file = part(judgement, "file").map(|_| self.write(cx).code("[ $? -eq 0 ] &&\n"));
        file.unwrap_or_default().then(shell::close(shell::usual().code(UPDATE_GRUB)))
    }

    fn grubby(&self, judgement: &Judgement) -> Fragment {
        let add = if self.absent { String::new() } else { self.wanted.args.join(" ") };
        let words = shell::usual().word(judge::to_remove(&judgement.basis).join(" ")).word(add);
        shell::close(words.code(GRUBBY))
    }
}

const MAKE_FOLDER: &str = r#"
[ -d /etc/default/grub.d ] || mkdir -m 0755 -- /etc/default/grub.d || fail "cannot make /etc/default/grub.d"
"#;

const UPDATE_GRUB: &str = r#"
update-grub || fail "update-grub failed: the menu of the next boot is the old one"
"#;

const GRUBBY: &str = r#"
gone=$1 args=$2
set -- --update-kernel=ALL
[ -z "$gone" ] || set -- "$@" "--remove-args=$gone"
[ -z "$args" ] || set -- "$@" "--args=$args"
grubby "$@" || fail "grubby failed: the entries of the next boot may be the old ones"
"#;

const EXPLAIN: &[(&str, &str)] = &[
    ("cannot find a device for /", "GRUB cannot tell what the root file system lies on: is this a container?"),
    ("No space left on device", "the file system of `/boot` is full; the old menu is untouched"),
    ("Read-only file system", "`/boot` is mounted read-only: remount it first"),
    ("update-grub: not found", "the program is gone: install `grub2-common` with a step before this one"),
    ("Syntax error", "a file of `/etc/default/grub.d` is not shell: `sh -n` names the line"),
];

impl Resource for Cmdline {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        let gone = self.wanted.absent.iter().map(|word| format!("no {word}"));
        self.wanted.args.iter().cloned().chain(gone).collect::<Vec<_>>().join(", ")
    }

    fn probes(&self) -> Vec<Probe> {
        vec![Probe::Cmdline, if self.absent { super::body::bare(&self.target.path) } else { self.target.probe() }]
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        match cmdline_state(seen, &Probe::Cmdline) {
            Err(unknown) => Judgement::unknown(&unknown),
            Ok(state) if self.absent => judge::removed(self, state, seen),
            Ok(state) => judge::declared(self, state, seen, cx),
        }
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        let body = match judgement.basis["loader"].as_str() {
            Some("grubby") => self.grubby(judgement),
            _ => self.update_grub(judgement, cx),
        };
        Action { body, long: true, explain: EXPLAIN }
    }

    fn desired(&self) -> Value {
        json!({
            "args": self.wanted.args, "absent_args": self.wanted.absent, "path": self.target.path, "absent": self.absent,
        })
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }

    fn claims(&self) -> Vec<(&'static str, String)> {
        let gone = self.wanted.absent.iter().map(|word| word.replace('-', "_"));
        let names = self.wanted.names().into_iter().chain(gone);
        names.map(|name| (KIND.name, name)).chain([("path", self.target.path.clone())]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_ones_that_are_read() {
        let fields = [("args", json!(["nosmt"])), ("file", json!("/etc/default/grub.d/60-forge"))];
        let diag = build(&Fields(fields.into_iter().collect()), false).unwrap_err();
        assert_eq!(
            diag.message,
            "`/etc/default/grub.d/60-forge` would not be read: `file` is `/etc/default/grub.d/NAME.cfg`"
        );
    }
}
