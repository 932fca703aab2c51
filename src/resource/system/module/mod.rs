//! `kernel_module`: whether a module is loaded, and its configuration: options, loading at boot, and blacklisting.

mod assessment;
mod config;
mod declaration;
mod load_rules;
mod module_diff;

use self::declaration::KernelModuleResource;
use self::module_diff::{LoadedDiff, MODPROBE, MODULES_LOAD, ModuleDiff};
use crate::diag::{Diag, DiagCode};
use crate::model::{UndoEffect, Value};
use crate::probe::{Observation, Probe};
use crate::resource::shared::composite::PartAssessments;
use crate::resource::shared::file_target::{FileBody, FileDiff, FileTarget, path_probe};
use crate::resource::shared::shell;
use crate::resource::shared::support::{bad_value, module_state, reject_secrets, required_text};
use crate::resource::traits::KindTraits;
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, ChangeMark, ChangedObject, ChangedPart, DeclaredResource,
    FieldSpec, FieldType, FieldValues, ProvidedItem, Resource, ResourceKind, TypedResource,
};
use crate::script::ShellFragment;
use serde_json::json;
use std::collections::BTreeMap;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "kernel_module",
    summary: "A kernel module: whether it is loaded now and at boot, its options, and blacklisting.",
    example: include_str!("../../examples/kernel_module.yaml"),
    doc: "\
**Compared**, each separately:

- **modprobe.d**: the step's own file `/etc/modprobe.d/forge-NAME.conf`. It holds `options`. With `blacklisted: true` it
  holds `blacklist NAME`, which prevents hardware from loading the module, and `install NAME /bin/false`, which prevents
  other modules and `modprobe` from loading it. With neither, the file does not exist.
- **modules-load.d**: the step's own file `/etc/modules-load.d/forge-NAME.conf`, only with `at_boot: true`.
- **loaded**: `/sys/module`, if `loaded` is declared or the module is blacklisted.
- **effective options**: `/sys/module/NAME/parameters`, if the module is loaded. `Y` equals `1`; numbers are compared by
  value.

In names `-` and `_` are the same. An unchanged step reports `no file is needed in modprobe.d; …; loaded with the
configured options`.

**Other files** are read too, merged as `modprobe` does: all lines in the order of the file names, then the kernel
command line; the last value of an option takes effect. The step is **blocked** if a line after the step's own file sets
an option of the step to another value, or if another file loads a module at boot that is declared `at_boot: false`; the
reason names file and line. Options that the step does not declare are listed in the reason and not changed. It is also
blocked if a `blacklist`, `install` or `alias` line of another file, or `modprobe.blacklist=` or `module_blacklist=` of the kernel
command line, prevents the module from being loaded as declared; or if the `install` line of an earlier file, of which
kmod takes the first, runs another command for a module that is declared `blacklisted`; or if a module is declared
`at_boot: true` and `systemd-modules-load.service`, which loads it, is masked.

**Pending**: a module that is declared `at_boot: true` and that neither the index of the running kernel
(`modules.dep`, `modules.alias`) lists nor the kernel has built in, so that no boot with this kernel loads it; without
such an index, as in a container, this is not compared. With `loaded: true` such a module is **blocked**.

**Pending** is also a module that is loaded with options other than the configured ones, or that is loaded and blacklisted.
Either needs a reload or a reboot, which this step does not do. The step derives this from the observed state, not from
the changes of a run. A blacklisted module that is loaded is gone after the single reboot of the host's window if
`rollout.reboot` is `allow` (see [rollout](../../rollout.md)). An option that the kernel does not show makes the step
unknown while the module is loaded, unless `hidden` lists it.

**A change** writes the files; `loaded: true` runs `modprobe`, `loaded: false` runs `rmmod`, which unloads this module
only. A module in use is **blocked: busy**; the reason gives its use count and the modules that use it. A built-in
module cannot be unloaded or blacklisted, and gets options only from the kernel command line. Unloading a module has
disruption class D2.

**The initramfs** is not rebuilt: a module that is loaded from it gets the options that it contained when it was built.

**Removal** removes both files. A loaded module stays loaded.

The proof below covers the configuration, as kmod itself reads it, on real hosts. Loading, unloading and effective
options are covered by recorded cases, because the test hosts cannot load modules.",
    fields: &[
        FieldSpec::required("name", FieldType::Name, "Name of the module."),
        FieldSpec::optional("loaded", FieldType::Bool, "Whether it is loaded now. Default: not compared."),
        FieldSpec::optional(
            "at_boot",
            FieldType::Bool,
            "Whether it is loaded at boot. With `false`, no other file of `modules-load.d` may list it.",
        ),
        FieldSpec::optional("blacklisted", FieldType::Bool, "Prevent it from being loaded. Default `false`."),
        FieldSpec::optional("options", FieldType::Map(&FieldType::Line), "Module options, by name."),
        FieldSpec::optional(
            "hidden",
            FieldType::List(&FieldType::Name),
            "Options that the kernel does not show: only their configuration is compared.",
        ),
        FieldSpec::optional(
            "denied",
            FieldType::Map(&FieldType::Line),
            "Options with the value that no other file, and not the kernel command line, may give them: the step is blocked if \
             one does, and names the place.",
        ),
    ],
    build,
    traits: KindTraits { explains_secrets: true, stops_during: true, ..KindTraits::DEFAULT },
};

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    reject_secrets(KIND.name, fields, "a module option cannot hold a secret")?;
    let name = parse_module_name(required_text(fields, "name")?)?;
    let flag = |field: &str| if absent { None } else { fields.get_bool(field) };
    let (loaded, at_boot, blacklisted) = (flag("loaded"), flag("at_boot"), flag("blacklisted") == Some(true));
    for (other, set) in [("loaded: true", loaded == Some(true)), ("at_boot: true", at_boot == Some(true))] {
        if blacklisted && set {
            let message = format!("`blacklisted: true` and `{other}` exclude each other");
            return Err(Diag::error(DiagCode::Exclusive, message));
        }
    }
    let options: BTreeMap<String, String> = fields.get_text_map("options").unwrap_or_default().into_iter().collect();
    options.iter().try_for_each(|(key, value)| check_option(key, value, "options"))?;
    let hidden = fields.get_text_list("hidden").unwrap_or_default();
    if let Some(unknown) = hidden.iter().find(|option| !options.contains_key(*option)) {
        return Err(bad_value(format!("`hidden` lists `{unknown}`, which `options` does not set")).with_field("hidden"));
    }
    let denied: BTreeMap<String, String> = fields.get_text_map("denied").unwrap_or_default().into_iter().collect();
    denied.iter().try_for_each(|(key, value)| check_option(key, value, "denied"))?;
    if let Some(both) = denied.keys().find(|option| options.contains_key(*option)) {
        return Err(bad_value(format!("`denied` lists `{both}`, which `options` sets")).with_field("denied"));
    }
    let modprobe = conf_target("modprobe.d", &name, config::render_modprobe_conf(&name, blacklisted, &options));
    let modules_load = conf_target("modules-load.d", &name, format!("{name}\n"));
    Ok(Box::new(KernelModuleResource {
        name,
        loaded,
        at_boot,
        blacklisted,
        options,
        hidden,
        denied,
        modprobe,
        modules_load,
        absent,
    }))
}

fn parse_module_name(given: &str) -> Result<String, Diag> {
    match given.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) && given.len() < 56 {
        true => Ok(given.replace('-', "_")),
        false => Err(bad_value(format!("`{given}` is not a valid kernel module name"))
            .with_field("name")
            .hint("use the name that `lsmod` prints, without directory and `.ko`")),
    }
}

fn check_option(key: &str, value: &str, field: &'static str) -> Result<(), Diag> {
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(bad_value(format!("`{key}` is not a valid option name")).with_field(field));
    }
    if value.is_empty() || value.contains(|c: char| c.is_whitespace() || c.is_control() || "\"'\\#".contains(c)) {
        return Err(
            bad_value(format!("option `{key}` has a value that modprobe does not read as one word")).with_field(field)
        );
    }
    Ok(())
}

fn conf_target(folder: &str, name: &str, body: String) -> FileTarget {
    let path = format!("/etc/{folder}/forge-{name}.conf");
    FileTarget { path, body: FileBody::new(body), owner: "root".into(), group: "root".into(), mode: 0o644 }
}

impl KernelModuleResource {
    fn assess_files(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> (PartAssessments, ModuleDiff) {
        let [mut modprobe, mut modules_load] =
            self.conf_files().map(|(folder, target, wanted)| assessment::assess_file(folder, target, wanted, seen, cx));
        let (modprobe_diff, modules_load_diff) = (modprobe.diff.take(), modules_load.diff.take());
        let diff = ModuleDiff { modprobe: modprobe_diff, modules_load: modules_load_diff, ..ModuleDiff::default() };
        let parts = PartAssessments::default().with_part(MODPROBE, modprobe).with_part(MODULES_LOAD, modules_load);
        (parts, diff)
    }

    fn render_file(&self, target: &FileTarget, diff: &FileDiff, cx: &AssessmentContext<'_>) -> ShellFragment {
        if matches!(diff, FileDiff::Remove { .. }) {
            return shell::remove_file(&target.path, cx.run, true);
        }
        let folder = shell::close_action(shell::open_private_action().word(&target.path).code(MAKE_FOLDER))
            .code("[ $? -eq 0 ] &&\n");
        folder.append_fragment(target.render_write(cx, true, ""))
    }

    fn render_script(&self, diff: &ModuleDiff, cx: &AssessmentContext<'_>) -> ShellFragment {
        let file = |target: &FileTarget, diff: &Option<FileDiff>| Some(self.render_file(target, diff.as_ref()?, cx));
        let loaded = diff.loaded.map(|loaded| {
            let code = match loaded {
                LoadedDiff::Load => LOAD,
                LoadedDiff::Unload => UNLOAD,
            };
            shell::close_action(shell::open_action().word(&self.name).code(code))
        });
        let steps = [file(&self.modprobe, &diff.modprobe), file(&self.modules_load, &diff.modules_load), loaded];
        let and = |all: ShellFragment, one: ShellFragment| all.code("[ $? -eq 0 ] &&\n").append_fragment(one);
        steps.into_iter().flatten().fold(ShellFragment::new().code(":\n"), and)
    }
}

const MAKE_FOLDER: &str = r#"
dir=${1%/*}
[ -d "$dir" ] || mkdir -m 0755 -- "$dir" || fail "cannot make $dir"
"#;

const LOAD: &str = r#"
modprobe -- "$1" || fail "cannot load module $1"
"#;

const UNLOAD: &str = r#"
rmmod -- "$1" || fail "cannot unload module $1"
"#;

const EXPLAIN: &[(&str, &str)] = &[
    ("Unknown symbol", "the module was built for another kernel, or a dependency is missing: see the kernel log"),
    ("Key was rejected", "Secure Boot accepts only signed modules: enrol the module's signing key"),
    ("Invalid argument", "unknown option, or invalid value of an option: see the kernel log"),
    ("No such device", "the module's hardware is not present"),
    ("is in use", "the module is in use again: run `lsmod`"),
    (
        "Operation not permitted",
        "this host cannot load modules: it is a container, or `kernel.modules_disabled` is set",
    ),
];

impl DeclaredResource for KernelModuleResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    fn changed_object(&self, mark: &ChangeMark) -> ChangedObject {
        match mark.part {
            ChangedPart::ModprobeFile => ChangedObject::Path(self.modprobe.path.clone()),
            ChangedPart::LoadFile => ChangedObject::Path(self.modules_load.path.clone()),
            _ => ChangedObject::Module(self.name.clone()),
        }
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes: Vec<Probe> = if self.absent { vec![] } else { vec![self.probe()] };
        let file = |(_, target, wanted): &(_, &FileTarget, bool)| {
            if *wanted { target.probe() } else { path_probe(&target.path) }
        };
        probes.extend(self.conf_files().iter().map(file));
        probes
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "name": self.name, "absent": true }),
            false => json!({
                "name": self.name, "loaded": self.loaded, "at_boot": self.at_boot, "blacklisted": self.blacklisted,
                "options": self.options,
            }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        self.conf_files()
            .iter()
            .filter(|(_, _, wanted)| *wanted)
            .map(|(_, t, _)| ProvidedItem::Path(t.path.clone()))
            .collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        self.conf_files().iter().filter(|(_, _, wanted)| *wanted).map(|(_, target, _)| target.path.clone()).collect()
    }

    fn loaded_module(&self) -> Option<&str> {
        (self.loaded == Some(true)).then_some(&self.name)
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        let files = self.conf_files().map(|(_, target, _)| ("path", target.path.clone()));
        files.into_iter().chain([(KIND.name, self.name.clone())]).collect()
    }
}

impl TypedResource for KernelModuleResource {
    type Diff = ModuleDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<ModuleDiff> {
        let files = self.assess_files(seen, cx);
        if self.absent {
            let (parts, diff) = files;
            return parts.combine_with(Some(diff));
        }
        match module_state(seen, &self.probe()) {
            Ok(state) => assessment::assess_module(self, state, files, cx),
            Err(unknown) => Assessment::unknown(&unknown),
        }
    }

    fn act(&self, diff: &ModuleDiff, cx: &AssessmentContext<'_>) -> Action {
        Action::Script(ActionScript { body: self.render_script(diff, cx), long: false, explain: EXPLAIN })
    }

    fn undo(&self, diff: &ModuleDiff) -> UndoEffect {
        let file = |target: &FileTarget, change: &Option<FileDiff>| change.is_some().then(|| target.path.clone());
        let files = file(&self.modprobe, &diff.modprobe).into_iter();
        let restored = UndoEffect::restore_paths(files.chain(file(&self.modules_load, &diff.modules_load)));
        let loaded = diff.loaded.map(|loaded| match loaded {
            LoadedDiff::Load => format!("the module `{}` stays loaded until the next boot", self.name),
            LoadedDiff::Unload => format!("the module `{}` stays unloaded until it is needed", self.name),
        });
        loaded.into_iter().fold(restored, UndoEffect::leaving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, Value)]) -> String {
        build(&FieldValues(fields.iter().cloned().collect()), false).unwrap_err().message
    }

    #[test]
    fn invalid_module_names_and_options_are_rejected() {
        assert_eq!(build_error(&[("name", json!("a.ko"))]), "`a.ko` is not a valid kernel module name");
        assert_eq!(
            build_error(&[("name", json!("a")), ("options", json!({ "b": "1 2" }))]),
            "option `b` has a value that modprobe does not read as one word"
        );
        assert_eq!(
            build_error(&[("name", json!("a")), ("options", json!({ "b c": "1" }))]),
            "`b c` is not a valid option name"
        );
        assert_eq!(
            build_error(&[("name", json!("a")), ("options", json!({ "b": "1" })), ("denied", json!({ "b": "0" }))]),
            "`denied` lists `b`, which `options` sets"
        );
        assert_eq!(
            build_error(&[("name", json!("a")), ("hidden", json!(["b"]))]),
            "`hidden` lists `b`, which `options` does not set"
        );
    }

    #[test]
    fn blacklisted_excludes_loaded_and_at_boot() {
        for (field, said) in [("loaded", "loaded: true"), ("at_boot", "at_boot: true")] {
            assert_eq!(
                build_error(&[("name", json!("a")), ("blacklisted", json!(true)), (field, json!(true))]),
                format!("`blacklisted: true` and `{said}` exclude each other")
            );
        }
    }
}
