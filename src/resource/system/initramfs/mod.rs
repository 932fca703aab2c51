//! `initramfs`: required and forbidden content of the initramfs images.

mod action_script;
mod assessment;
mod declaration;
mod image_diff;
mod undo;

use self::declaration::InitramfsResource;
use self::image_diff::InitramfsDiff;
use crate::diag::Diag;
use crate::model::{BootUndo, UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::support::{bad_value, initramfs_state};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, DeclaredResource, FieldSpec,
    FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "initramfs",
    summary: "Content of the initramfs images, and whether the host booted with the current one.",
    example: include_str!("../../examples/initramfs.yaml"),
    doc: "\
**Compares** the content of the images of the running kernel and of the default boot kernel, as their build programs
list it: `lsinitramfs` and `unmkinitramfs`, or `lsinitrd`. forge does not assume that a past rebuild worked.

- **files**: each is in the image with the same content as on the host;
- **lacks**: none of these is in the image;
- **as_host**: each is in the image with the same content as on the host, or in neither of them;
- **modules**: each is in the image, built from the same source as the one on disk (`modinfo -F srcversion`), or built
  into the kernel;
- **lacks_modules**: none of these is in the image;
- **current_modules**: those that are in the image are built from the same source as the ones on disk; missing ones are
  allowed. If an earlier step changes the module on disk, a rebuild is planned, and skipped if it turns out not to be
  needed;
- **booted**: the running kernel's image is older than the boot. If it was rebuilt since, the step is **pending** until
  a reboot, because an image is read at boot only. The host's window performs the reboot if `rollout.reboot` is `allow`
  (see [rollout](../../rollout.md)). Set `booted: false` if reloading the module is sufficient.

Names match with and without `usr/`; in module names `-` and `_` are equal. An unchanged step reports
`the image of 6.1.0-28-amd64 matches`.

**Images**: `/boot/initrd.img-KERNEL` with initramfs-tools, `/boot/initramfs-KERNEL.img` with dracut (Debian's dracut
uses the former name). If both programs are installed, forge uses the one whose image exists. The default boot kernel is
the output of `grubby --default-kernel`, or the newest kernel in `/boot`; if `GRUB_DEFAULT` selects another way, all
kernels are compared.

**Blocked**: a file in `files` does not exist on the host; the host has no kernels in `/boot` (a container, or a host
that boots from elsewhere); neither program is installed; or `image` is not a path that this host uses. An image that
cannot be read or is truncated is **unknown**.

**A change** rebuilds the images that differ, one at a time: the old image is copied to `IMAGE.forge-RUN`, synced and
verified by digest, which needs free space for two images in `/boot`. A new image of less than half or more than twice
the old size is rejected. After any failure the old image is restored. The last two copies are kept. The disruption is
D0, because an image is read at the next boot. Content that a rebuild does not include by itself needs a hook,
`/etc/initramfs-tools/modules` or `/etc/dracut.conf.d`: dracut includes `/etc/modprobe.d` only with `hostonly=yes` or
`install_items`.

**Removal** changes nothing: the content stays until an image is rebuilt. To remove a file from the images, list it in
`lacks`.

To read the content of files, forge unpacks an image into a temporary directory below `/var/tmp`, as `lsinitramfs` does.

The proof below covers initramfs-tools on real hosts, and dracut on hosts that claim to be Rocky Linux 9, with images
built there for stand-in kernels.",
    fields: &[
        FieldSpec::optional(
            "files",
            FieldType::List(&FieldType::Path),
            "Host files that must be in the image, with equal content.",
        ),
        FieldSpec::optional("lacks", FieldType::List(&FieldType::Path), "Files that must not be in the image."),
        FieldSpec::optional(
            "as_host",
            FieldType::List(&FieldType::Path),
            "Files that must be in the image if they are on the host, with equal content.",
        ),
        FieldSpec::optional("modules", FieldType::List(&FieldType::Name), "Kernel modules that must be in the image."),
        FieldSpec::optional(
            "lacks_modules",
            FieldType::List(&FieldType::Name),
            "Kernel modules that must not be in the image.",
        ),
        FieldSpec::optional(
            "current_modules",
            FieldType::List(&FieldType::Name),
            "Kernel modules that must match those on disk if they are in the image.",
        ),
        FieldSpec::optional(
            "kernels",
            FieldType::Enum(&["boot", "all"]),
            "`boot`: the running and the default boot kernel. `all`: all kernels in `/boot`. Default `boot`.",
        ),
        FieldSpec::optional(
            "booted",
            FieldType::Bool,
            "Require that the host booted with the current image of the running kernel. Default `true`.",
        ),
        FieldSpec::optional(
            "image",
            FieldType::Path,
            "Expected path of the image, as a check: another path blocks the step.",
        ),
    ],
    build,
    traits: KindTraits::DEFAULT,
};

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let names = |field: &'static str| -> Result<Vec<String>, Diag> {
        fields
            .get_text_list(field)
            .unwrap_or_default()
            .iter()
            .map(|name| parse_module_name(name).map_err(|diag| diag.with_field(field)))
            .collect()
    };
    let paths = |field: &str| fields.get_text_list(field).unwrap_or_default();
    let want = InitramfsResource {
        files: paths("files"),
        lacks: paths("lacks"),
        as_host: paths("as_host"),
        modules: names("modules")?,
        lacks_modules: names("lacks_modules")?,
        current_modules: names("current_modules")?,
        all: fields.get_text("kernels") == Some("all"),
        booted: fields.get_bool("booted").unwrap_or(true),
        image: fields.get_text("image").map(str::to_owned),
        absent,
    };
    want.check_declaration()?;
    Ok(Box::new(want))
}

fn parse_module_name(name: &str) -> Result<String, Diag> {
    match name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) && name.len() < 56 {
        true => Ok(name.replace('-', "_")),
        false => Err(bad_value(format!("`{name}` is not a valid kernel module name"))
            .hint("use the name that `lsmod` prints, without directory and `.ko`")),
    }
}

impl InitramfsResource {
    fn check_declaration(&self) -> Result<(), Diag> {
        let both = |one: &[String], other: &[String]| one.iter().find(|name| other.contains(name)).cloned();
        if let Some(name) = both(&self.files, &self.lacks).or_else(|| both(&self.modules, &self.lacks_modules)) {
            return Err(bad_value(format!("`{name}` is both required and forbidden")));
        }
        if let Some(name) = both(&self.as_host, &self.files).or_else(|| both(&self.as_host, &self.lacks)) {
            return Err(bad_value(format!("`{name}` is in `as_host` and in another list")).with_field("as_host"));
        }
        match self.declared_files().chain(self.declared_modules()).next() {
            Some(_) => Ok(()),
            None => Err(bad_value("the step declares no content")
                .hint("set `files`, `lacks`, `as_host`, `modules`, `lacks_modules` or `current_modules`")),
        }
    }
}

impl DeclaredResource for InitramfsResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        let gone = self.lacks.iter().chain(&self.lacks_modules).map(|name| format!("no {name}"));
        let there = self.files.iter().chain(&self.as_host).chain(&self.modules).chain(&self.current_modules).cloned();
        there.chain(gone).collect::<Vec<_>>().join(", ")
    }

    fn changed_object(&self, _mark: &ChangeMark) -> ChangedObject {
        ChangedObject::Kernel
    }

    fn probes(&self) -> Vec<Probe> {
        if self.absent { Vec::new() } else { vec![self.probe()] }
    }

    fn desired_value(&self) -> Value {
        let mut desired = json!({
            "files": self.files, "lacks": self.lacks, "modules": self.modules, "lacks_modules": self.lacks_modules,
            "current_modules": self.current_modules, "all": self.all, "booted": self.booted, "absent": self.absent,
        });
        if !self.as_host.is_empty() {
            desired["as_host"] = json!(self.as_host);
        }
        desired
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        Vec::new()
    }

    /// Returns no claims: several steps may declare different content of the same images.
    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl TypedResource for InitramfsResource {
    type Diff = InitramfsDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<InitramfsDiff> {
        if self.absent {
            let reason = "the content stays until an image is rebuilt";
            return Assessment::ok(reason, json!({ "absent": true }));
        }
        match initramfs_state(seen, &self.probe()) {
            Ok(state) => assessment::assess_images(self, state, cx),
            Err(unknown) => Assessment::unknown(&unknown),
        }
    }

    fn act(&self, diff: &InitramfsDiff, cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript {
            body: action_script::render_script(diff, cx.run),
            long: true,
            explain: action_script::EXPLAIN,
        })
    }

    fn undo(&self, diff: &InitramfsDiff) -> UndoEffect {
        let images = diff.list_replaced_images();
        undo::undo_rebuild(self, diff).with_boot(BootUndo { images, ..BootUndo::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)]) -> String {
        build(&FieldValues(fields.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn invalid_initramfs_fields_are_rejected() {
        assert_eq!(build_error(&[]), "the step declares no content");
        assert_eq!(build_error(&[("modules", json!(["nvidia.ko"]))]), "`nvidia.ko` is not a valid kernel module name");
        assert_eq!(
            build_error(&[("modules", json!(["nvidia-uvm"])), ("lacks_modules", json!(["nvidia_uvm"]))]),
            "`nvidia_uvm` is both required and forbidden"
        );
        assert_eq!(
            build_error(&[("files", json!(["/etc/a"])), ("lacks", json!(["/etc/a"]))]),
            "`/etc/a` is both required and forbidden"
        );
    }
}
