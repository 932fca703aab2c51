//! Compares what changed in a view with what the steps declare.

use super::changes::{ChangedFile, UnitCall, ViewChanges};
use super::declared::{DeclaredEffects, DeclaredStep, full_unit_name};
use super::fold::fold_new_directories;
use super::model::{AccountEffect, FileChange, FileEffect, PackageEffect, UndeclaredEffects, UnitAction, UnitEffect};
use crate::model::UntrustedText;

/// Logs, caches and databases that change with any package; the packages themselves are listed.
const BOOKKEEPING: &[&str] = &[
    "/etc/ld.so.cache",
    "/usr/lib/sysimage/rpm/",
    "/usr/share/info/dir",
    "/var/cache/",
    "/var/lib/apt/",
    "/var/lib/dnf/",
    "/var/lib/dpkg/",
    "/var/lib/pam/",
    "/var/lib/rpm/",
    "/var/lib/selinux/",
    "/var/lib/systemd/deb-systemd-",
    "/var/lib/ucf/",
    "/var/log/",
];

/// Files that contain the accounts, which are listed by name.
const ACCOUNT_FILES: &[&str] =
    &["/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "/etc/.pwd.lock"];

/// Returns everything that changed and that no step declares.
pub fn find_undeclared_effects(changes: &ViewChanges, declared: &DeclaredEffects) -> UndeclaredEffects {
    let mut files = Vec::new();
    let mut units: Vec<UnitEffect> = changes.calls.iter().filter_map(|call| read_unit_effect(call, declared)).collect();
    let mut bookkeeping = 0;
    for file in &changes.files {
        if is_account_file(&file.path) {
            continue;
        }
        let step = file.at.and_then(|at| changes.find_step_at(at));
        match () {
            () if is_bookkeeping(&file.path) => bookkeeping += 1,
            () if is_declared(file, step, declared) => {}
            () => match read_enabled_unit(file) {
                Some((unit, action)) => add_enabled_unit(&mut units, unit, action, step, declared),
                None => files.push((describe_file(file, step), file.is_directory)),
            },
        }
    }
    UndeclaredEffects {
        units: remove_repetitions(units),
        packages: list_undeclared_packages(changes, declared),
        accounts: list_undeclared_accounts(changes, declared),
        files: fold_new_directories(files),
        bookkeeping,
        unlisted: changes.unlisted,
    }
}

fn is_bookkeeping(path: &str) -> bool {
    let matches = |own: &str| if own.ends_with(['/', '-']) { path.starts_with(own) } else { path == own };
    let is_folder = |own: &str| own.strip_suffix('/') == Some(path);
    BOOKKEEPING.iter().any(|own| matches(own) || is_folder(own)) || path.contains("/__pycache__")
}

fn is_account_file(path: &str) -> bool {
    ACCOUNT_FILES.contains(&path.strip_suffix('-').unwrap_or(path))
}

/// A path that a step claims is declared; so is what a step writes below a path that it claims, such as an archive.
fn is_declared(file: &ChangedFile, step: Option<&str>, declared: &DeclaredEffects) -> bool {
    let claims = |own: &DeclaredStep| {
        own.paths.contains(&file.path) || (step == Some(own.id.as_str()) && own.declares_around(&file.path))
    };
    declared.steps.iter().any(claims)
}

fn describe_file(file: &ChangedFile, step: Option<&str>) -> FileEffect {
    FileEffect {
        path: file.path.as_str().into(),
        change: file.change,
        entries: 0,
        detail: file.detail.as_str().into(),
        package: file.package.as_deref().map(UntrustedText::from),
        step: step.map(UntrustedText::from),
    }
}

/// Returns the unit that a link to its file enables or, if it is gone, disables. Scripts of packages make the links
/// themselves.
fn read_enabled_unit(file: &ChangedFile) -> Option<(&str, UnitAction)> {
    let (folder, unit) = file.path.strip_prefix("/etc/systemd/system/")?.split_once('/')?;
    if unit.contains('/') || !(folder.ends_with(".wants") || folder.ends_with(".requires")) {
        return None;
    }
    match file.change {
        FileChange::Created => Some((unit, UnitAction::Enabled)),
        FileChange::Removed => Some((unit, UnitAction::Disabled)),
        FileChange::Changed | FileChange::Attributes => None,
    }
}

fn add_enabled_unit(
    units: &mut Vec<UnitEffect>,
    unit: &str,
    action: UnitAction,
    step: Option<&str>,
    declared: &DeclaredEffects,
) {
    let known = units.iter().any(|known| known.unit.raw() == unit && known.action == action);
    if known || declared.steps.iter().any(|own| own.units.contains(unit)) {
        return;
    }
    units.push(UnitEffect {
        unit: unit.into(),
        action,
        step: step.map(UntrustedText::from),
        package: None,
        script: None,
        caller: None,
        not_started: None,
    });
}

/// Returns what a call of systemctl did, unless a step declares it: its own step in any case, and a start or an enabled
/// unit also if another step declares that unit. A call outside of steps is forge's own, in a window.
fn read_unit_effect(call: &UnitCall, declared: &DeclaredEffects) -> Option<UnitEffect> {
    let action = read_action(call)?;
    let unit = full_unit_name(&call.unit);
    let by_step = call.package.is_none();
    let step = call.step.as_deref();
    if by_step && step.is_none() {
        return None;
    }
    let own = |own: &&DeclaredStep| own.units.contains(&unit);
    let is_own = by_step && declared.steps.iter().filter(own).any(|own| step == Some(own.id.as_str()));
    let is_expected = matches!(action, UnitAction::Started | UnitAction::Enabled | UnitAction::Unmasked)
        && declared.steps.iter().any(|step| own(&step));
    if is_own || is_expected {
        return None;
    }
    let text = |text: &Option<String>| text.as_deref().map(UntrustedText::from);
    Some(UnitEffect {
        unit: unit.into(),
        action,
        step: text(&call.step),
        package: text(&call.package),
        script: text(&call.script),
        caller: text(&call.caller).filter(|_| call.package.is_none()),
        not_started: text(&call.not_started),
    })
}

/// Returns what happened to the unit, if anything did.
fn read_action(call: &UnitCall) -> Option<UnitAction> {
    let is_up = |state: &(String, String)| matches!(state.0.as_str(), "active" | "activating" | "reloading");
    let is_enabled = |state: &(String, String)| state.1 == "enabled";
    let (was_up, is_up_now) = (is_up(&call.before), is_up(&call.after));
    match call.verb.as_str() {
        "start" | "restart" | "reload" | "reload-or-restart" | "try-restart" if call.failed => Some(UnitAction::Failed),
        "start" => (!was_up && is_up_now).then_some(UnitAction::Started),
        "restart" | "reload-or-restart" => Some(if was_up { UnitAction::Restarted } else { UnitAction::Started }),
        "try-restart" => was_up.then_some(UnitAction::Restarted),
        "reload" => Some(UnitAction::Reloaded),
        "stop" | "kill" => (was_up && !is_up_now).then_some(UnitAction::Stopped),
        "enable" => (!is_enabled(&call.before) && is_enabled(&call.after)).then_some(UnitAction::Enabled),
        "disable" => (is_enabled(&call.before) && !is_enabled(&call.after)).then_some(UnitAction::Disabled),
        "mask" => (call.before.1 != "masked" && call.after.1 == "masked").then_some(UnitAction::Masked),
        "unmask" => (call.before.1 == "masked" && call.after.1 != "masked").then_some(UnitAction::Unmasked),
        _ => None,
    }
}

fn remove_repetitions(units: Vec<UnitEffect>) -> Vec<UnitEffect> {
    let mut all: Vec<UnitEffect> = Vec::new();
    for unit in units {
        if !all.contains(&unit) {
            all.push(unit);
        }
    }
    all
}

fn list_undeclared_packages(changes: &ViewChanges, declared: &DeclaredEffects) -> Vec<PackageEffect> {
    let is_declared = |effect: &&PackageEffect| {
        let name = effect.name.raw();
        let bare = name.split(':').next().unwrap_or(name);
        declared.steps.iter().any(|step| step.packages.contains(name) || step.packages.contains(bare))
    };
    changes.packages.iter().filter(|effect| !is_declared(effect)).cloned().collect()
}

fn list_undeclared_accounts(changes: &ViewChanges, declared: &DeclaredEffects) -> Vec<AccountEffect> {
    let is_declared = |name: &str| declared.steps.iter().any(|step| step.accounts.contains(name));
    let open = changes.accounts.iter().filter(|account| !is_declared(&account.name));
    open.map(|account| AccountEffect {
        group: account.group,
        name: account.name.as_str().into(),
        change: account.change,
    })
    .collect()
}
