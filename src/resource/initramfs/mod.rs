//! `initramfs`: what must and must not be inside the images that kernels begin with, told by their content.

mod act;
mod judge;

use super::support::{bad_value, initramfs_state};
use super::{Action, Context, Field, Fields, Judgement, Kind, Provision, Resource, Type};
use crate::diag::Diag;
use crate::model::Value;
use crate::probe::{Observation, Probe};
use serde_json::json;

pub(super) const KIND: Kind = Kind {
    name: "initramfs",
    summary: "The images that kernels begin with: what is inside, and that the host booted with it.",
    example: include_str!("../examples/initramfs.yaml"),
    doc: "\
**Compared** is the content of the images of the running kernel and of the one that is booted next, as the programs that make
them read it: `lsinitramfs` and `unmkinitramfs`, or `lsinitrd`. That a rebuild once ran counts for nothing.

- **files**: each is inside with the very bytes that the host has;
- **lacks**: none of these is inside;
- **modules**: each is inside, from the same source as the one on disk (`modinfo -F srcversion`), or built into the kernel;
- **lacks_modules**: none of these is inside;
- **current_modules**: those of them that are inside are from the same source as the ones on disk; what is not inside is right. Where an
  earlier step is going to change what is on disk, a rebuild is planned, and left out if it turns out not to be needed;
- **booted**: the running kernel's image is older than the boot. If it was made since, the step is **pending** until a
  reboot, since an image is read at boot only: the one of the host's window, where `rollout.reboot` is `allow` (see
  [rollout](../../rollout.md)). Say `booted: false` where a reload of the module does as well.

A name is found with and without `usr/`, and `-` and `_` are the same in names of modules. Nothing to do reads `inside the image of
6.1.0-28-amd64 as declared`.

**Which image**: `/boot/initrd.img-KERNEL` with initramfs-tools, `/boot/initramfs-KERNEL.img` with dracut (Debian's dracut
uses the former name); where both programs are installed, the one whose image is there. The kernel that is booted next is what
`grubby --default-kernel` says, else the newest in `/boot`; where `GRUB_DEFAULT` chooses another way, all kernels are judged.

**Blocked** is a file of `files` that the host itself lacks, a host without kernels in `/boot` (a container, or one that boots
from elsewhere), one with neither program, and an `image` that is not named as this host names them. An image that cannot be
read, or is cut short, is **unknown**.

**A change** rebuilds the images that differ, one after the other: the old image is copied to `IMAGE.forge-RUN`, synced and
compared by its digest; `/boot` must have room for two. A new image of less than half or more than twice the size is not
trusted. After any failure the old image is put back. The last two copies are kept. It is D0: an image is read at
the next boot. What a rebuild does not put inside by itself, it takes a hook, `/etc/initramfs-tools/modules` or
`/etc/dracut.conf.d` to put there: dracut takes `/etc/modprobe.d` along only with `hostonly=yes` or `install_items`.

**Removal** changes nothing: what is inside stays until an image is rebuilt. To take a file out, list it in `lacks`.

Reading unpacks an image of which something is asked and inside into a folder of its own below `/var/tmp`, as `lsinitramfs`
does, and takes it away again.

What the proof below shows on real hosts is initramfs-tools with images that it made there, for stand-in kernels; dracut is
pinned by recorded cases.",
    fields: &[
        Field::optional("files", Type::List(&Type::Path), "Files of the host that are inside as they are on the host."),
        Field::optional("lacks", Type::List(&Type::Path), "Files that are not inside."),
        Field::optional("modules", Type::List(&Type::Name), "Kernel modules that are inside."),
        Field::optional("lacks_modules", Type::List(&Type::Name), "Kernel modules that are not inside."),
        Field::optional(
            "current_modules",
            Type::List(&Type::Name),
            "Kernel modules that are those on disk, if they are inside at all.",
        ),
        Field::optional(
            "kernels",
            Type::Enum(&["boot", "all"]),
            "`boot`: the running kernel and the one that is booted next. `all`: all in `/boot`. Default `boot`.",
        ),
        Field::optional(
            "booted",
            Type::Bool,
            "Whether the running kernel must have been booted with its image as it is now. Default `true`.",
        ),
        Field::optional(
            "image",
            Type::Path,
            "The image that is meant, where that is to be checked: one of another name blocks the step.",
        ),
    ],
    build,
};

#[derive(Debug)]
struct Initramfs {
    files: Vec<String>,
    lacks: Vec<String>,
    modules: Vec<String>,
    lacks_modules: Vec<String>,
    current_modules: Vec<String>,
    all: bool,
    booted: bool,
    image: Option<String>,
    absent: bool,
}

fn build(fields: &Fields, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let names = |field: &str| -> Result<Vec<String>, Diag> {
        fields.texts(field).unwrap_or_default().iter().map(|name| module(name)).collect()
    };
    let paths = |field: &str| fields.texts(field).unwrap_or_default();
    let want = Initramfs {
        files: paths("files"),
        lacks: paths("lacks"),
        modules: names("modules")?,
        lacks_modules: names("lacks_modules")?,
        current_modules: names("current_modules")?,
        all: fields.text("kernels") == Some("all"),
        booted: fields.bool("booted").unwrap_or(true),
        image: fields.text("image").map(str::to_owned),
        absent,
    };
    want.check()?;
    Ok(Box::new(want))
}

fn module(name: &str) -> Result<String, Diag> {
    match name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) && name.len() < 56 {
        true => Ok(name.replace('-', "_")),
        false => Err(bad_value(format!("`{name}` is not the name of a kernel module"))
            .hint("name it as `lsmod` does, without a folder and without `.ko`")),
    }
}

impl Initramfs {
    fn check(&self) -> Result<(), Diag> {
        let both = |one: &[String], other: &[String]| one.iter().find(|name| other.contains(name)).cloned();
        if let Some(name) = both(&self.files, &self.lacks).or_else(|| both(&self.modules, &self.lacks_modules)) {
            return Err(bad_value(format!("`{name}` is declared to be inside and not to be")));
        }
        let all = [&self.files, &self.lacks, &self.modules, &self.lacks_modules, &self.current_modules];
        match all.iter().all(|list| list.is_empty()) {
            false => Ok(()),
            true => Err(bad_value("nothing is declared of what is inside")
                .hint("list it in `files`, `lacks`, `modules`, `lacks_modules` or `current_modules`")),
        }
    }

    fn probe(&self) -> Probe {
        let files = self.files.iter().chain(&self.lacks).cloned().collect();
        Probe::Initramfs { files, modules: self.asked().cloned().collect(), all: self.all }
    }

    /// Names of all modules of which something is declared.
    fn asked(&self) -> impl Iterator<Item = &String> {
        self.modules.iter().chain(&self.lacks_modules).chain(&self.current_modules)
    }
}

impl Resource for Initramfs {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        let gone = self.lacks.iter().chain(&self.lacks_modules).map(|name| format!("no {name}"));
        let there = self.files.iter().chain(&self.modules).chain(&self.current_modules).cloned();
        there.chain(gone).collect::<Vec<_>>().join(", ")
    }

    fn probes(&self) -> Vec<Probe> {
        if self.absent { Vec::new() } else { vec![self.probe()] }
    }

    fn judge(&self, seen: &Observation, cx: &Context<'_>) -> Judgement {
        if self.absent {
            let reason = "nothing to take away: what is inside stays until an image is rebuilt";
            return Judgement::ok(reason, json!({ "absent": true }));
        }
        match initramfs_state(seen, &self.probe()) {
            Ok(state) => judge::judge(self, state, cx),
            Err(unknown) => Judgement::unknown(&unknown),
        }
    }

    fn act(&self, judgement: &Judgement, cx: &Context<'_>) -> Action {
        Action { body: act::action(judgement, cx.run), long: true, explain: act::EXPLAIN }
    }

    fn desired(&self) -> Value {
        json!({
            "files": self.files, "lacks": self.lacks, "modules": self.modules, "lacks_modules": self.lacks_modules,
            "current_modules": self.current_modules, "all": self.all, "booted": self.booted, "absent": self.absent,
        })
    }

    fn provides(&self) -> Vec<Provision> {
        Vec::new()
    }

    /// Several steps may ask different things of the same images.
    fn claims(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &[(&'static str, Value)]) -> String {
        build(&Fields(fields.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn what_is_declared_is_checked() {
        assert_eq!(refused(&[]), "nothing is declared of what is inside");
        assert_eq!(refused(&[("modules", json!(["nvidia.ko"]))]), "`nvidia.ko` is not the name of a kernel module");
        assert_eq!(
            refused(&[("modules", json!(["nvidia-uvm"])), ("lacks_modules", json!(["nvidia_uvm"]))]),
            "`nvidia_uvm` is declared to be inside and not to be"
        );
        assert_eq!(
            refused(&[("files", json!(["/etc/a"])), ("lacks", json!(["/etc/a"]))]),
            "`/etc/a` is declared to be inside and not to be"
        );
    }
}
