//! Compares a kernel command line: the step's own file, the arguments of the next boot and those of the running kernel.

use super::grub::{Override, overriding, set_elsewhere};
use super::words::{Lack, Wanted, Word, line, words};
use super::{Cmdline, NEXT};
use crate::model::{BlockClass, Disruption, Value, Verdict};
use crate::probe::{BootEntry, CmdlineState, Loader, Observation, Unknown};
use crate::resource::parts::Parts;
use crate::resource::support::ticked;
use crate::resource::{Change, Context, Judgement};
use serde_json::json;

/// Compares declared arguments.
pub(super) fn declared(want: &Cmdline, state: &CmdlineState, seen: &Observation, cx: &Context<'_>) -> Judgement {
    let loaded = loaded(&want.wanted, state);
    match &state.loader {
        Loader::Other { found } => no_loader(&loaded, state, found, cx),
        Loader::UpdateGrub { lines, entries } => {
            let file = want.target.judge(seen, cx, true);
            let over = overriding(lines, &want.target.path, &want.wanted);
            let next = match over {
                Some(over) => overridden(want, &over, cx),
                None => next(&want.wanted, entries),
            };
            judged("update-grub", [("file", file), (NEXT, next), ("loaded", loaded)])
        }
        Loader::Grubby { entries } => judged("grubby", [(NEXT, next(&want.wanted, entries)), ("loaded", loaded)]),
    }
}

/// Evaluates a removal: the next boot has no argument of the step, except those that another file sets.
pub(super) fn removed(want: &Cmdline, state: &CmdlineState, seen: &Observation) -> Judgement {
    let own = want.wanted.present();
    match &state.loader {
        Loader::Other { found } => Judgement::unknown(&Unknown::new(format!(
            "the arguments of the next boot could not be determined: {}",
            without(state, found)
        ))),
        Loader::UpdateGrub { lines, entries } => {
            let others = |word: &Word| set_elsewhere(lines, &want.target.path, word);
            let own: Vec<Word> = own.into_iter().filter(|word| !others(word)).collect();
            let file = stays(want.target.judge_absent(seen), &own, state);
            judged("update-grub", [("file", file), (NEXT, left(&own, entries))])
        }
        Loader::Grubby { entries } => judged("grubby", [(NEXT, stays(left(&own, entries), &own, state))]),
    }
}

/// Joins parts and records the loader in the basis, where `act` reads it.
fn judged<const N: usize>(loader: &str, parts: [(&'static str, Judgement); N]) -> Judgement {
    let first = Parts::default().with("loader", Judgement::ok("", json!(loader)));
    parts.into_iter().fold(first, |parts, (name, part)| parts.with(name, part)).judgement()
}

/// Adds to the reason that the running kernel keeps its arguments.
fn stays(judgement: Judgement, own: &[Word], state: &CmdlineState) -> Judgement {
    let loaded = words(state.loaded.raw());
    match own.iter().any(|word| loaded.contains(word)) {
        true => Judgement {
            reason: format!("{}; loaded arguments remain until the next boot", judgement.reason.raw()).into(),
            ..judgement
        },
        false => judgement,
    }
}

fn loaded(wanted: &Wanted, state: &CmdlineState) -> Judgement {
    let lacks = wanted.lacks(state.loaded.raw());
    let basis = json!(lacks.iter().map(|lack| line(&lack.have)).collect::<Vec<_>>());
    if lacks.is_empty() {
        return Judgement::ok("running kernel: arguments match", basis);
    }
    let reason = format!("configured, not loaded: {}; needs a reboot", says(&lacks));
    let pending = Judgement::pending(reason, basis);
    match state.container.is_empty() {
        true => pending.by_reboot(),
        // A reboot of the container does not change the arguments.
        false => pending
            .hint(format!("this is a container ({}): it uses the kernel command line of its machine", state.container)),
    }
}

fn says(lacks: &[Lack]) -> String {
    lacks.iter().map(Lack::says).collect::<Vec<_>>().join(", ")
}

/// Evaluates a host without a supported boot loader. Never `ok`: the next boot may lack the arguments.
fn no_loader(loaded: &Judgement, state: &CmdlineState, found: &[String], cx: &Context<'_>) -> Judgement {
    let basis = json!({ "loader": "other", "loaded": loaded.basis });
    let why = without(state, found);
    let earlier = cx.predicted.and_then(|p| p.after.as_deref());
    if let Some(step) = earlier.filter(|_| state.container.is_empty()) {
        let reason = format!("{why}; `{step}` runs first and may change that");
        let judgement =
            Judgement::change(reason, vec![Change::new(NEXT, None, None)], Disruption::D0, basis).predicted();
        return Judgement { by_reboot: loaded.by_reboot, ..judgement };
    }
    let judgement = match loaded.verdict {
        Verdict::Ok => Judgement {
            basis,
            ..Judgement::unknown(&Unknown::new(format!(
                "running kernel: arguments match; next boot could not be checked: {why}"
            )))
        },
        _ => Judgement::blocked(BlockClass::Host, format!("cannot be configured here: {why}"), basis),
    };
    judgement.hint(advice(state, found))
}

fn without(state: &CmdlineState, found: &[String]) -> String {
    match (state.container.as_str(), found) {
        ("", []) => "this host has neither GRUB's menu with `update-grub` nor `grubby`".to_owned(),
        ("", found) => {
            format!("this host has neither GRUB's menu with `update-grub` nor `grubby`; it has {}", ticked(found))
        }
        (container, _) => format!("this host is a container ({container}), which does not boot a kernel"),
    }
}

fn advice(state: &CmdlineState, found: &[String]) -> &'static str {
    let has = |part: &str| found.iter().any(|path| path.contains(part));
    if !state.container.is_empty() {
        "declare the arguments on the container's machine"
    } else if has("kernel/cmdline") || has("loader.conf") {
        "systemd-boot reads `/etc/kernel/cmdline`: write it with a `file` step, and run `kernel-install` or \
         `bootctl` in a `command` step"
    } else if has("grub2/grub.cfg") || has("default/grub") {
        "install `grubby`, or set `GRUB_CMDLINE_LINUX` with a `line` step and regenerate the menu in a `command` step"
    } else {
        "set the arguments where the host gets its kernel: the hypervisor, the network boot server or the \
         loader's own file"
    }
}

fn overridden(want: &Cmdline, over: &Override, cx: &Context<'_>) -> Judgement {
    let reason = format!("`{}` {} after `{}`", over.place, over.does, want.target.path);
    let basis = json!({ "overridden": over.place, "does": over.does });
    match cx.predicted.and_then(|p| p.after.as_deref()) {
        // An earlier step may remove it; forge evaluates this step again when it runs.
        Some(step) => {
            let change = Change::new(NEXT, Some(&over.place), None);
            let reason = format!("{reason}; `{step}` runs first and may change that");
            Judgement::change(reason, vec![change], Disruption::D0, basis).predicted()
        }
        None => Judgement::blocked(BlockClass::Host, reason, basis).hint(format!(
            "remove that line with an earlier step, or set `file: {}/zz-forge.cfg`, which is read later",
            super::grub::FOLDER
        )),
    }
}

/// Compares the arguments of the next boot: of all entries except rescue entries, because any of them may boot.
fn next(wanted: &Wanted, entries: &[BootEntry]) -> Judgement {
    let plain: Vec<&BootEntry> = entries.iter().filter(|entry| !entry.rescue).collect();
    if plain.is_empty() {
        return Judgement::unknown(&Unknown::new("no kernel entry in the boot loader's menu"))
            .hint("install a kernel, or regenerate the menu with `update-grub`");
    }
    let all: Vec<(&BootEntry, Vec<Lack>)> = plain.iter().map(|e| (*e, wanted.lacks(e.args.raw()))).collect();
    if let Some((entry, _)) = all.iter().find(|(e, lacks)| !lacks.is_empty() && e.args.raw().contains("$kernelopts")) {
        let why = format!("the entry `{}` reads `$kernelopts` from GRUB's environment", entry.title.raw());
        return Judgement::unknown(&Unknown::new(why));
    }
    let bad: Vec<&(&BootEntry, Vec<Lack>)> = all.iter().filter(|(_, lacks)| !lacks.is_empty()).collect();
    let Some((_, lacks)) = bad.first() else {
        return Judgement::ok(format!("next boot: arguments match ({})", count(plain.len())), json!("as declared"));
    };
    let remove = bad.iter().flat_map(|(_, lacks)| lacks).flat_map(|lack| &lack.have);
    changed(format!("{} in {} of {}", says(lacks), bad.len(), count(plain.len())), lacks, remove)
}

fn count(entries: usize) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

fn changed<'a>(why: String, lacks: &[Lack], remove: impl Iterator<Item = &'a Word>) -> Judgement {
    let all = |pick: fn(&Lack) -> &Vec<Word>| lacks.iter().map(|l| line(pick(l))).filter(|t| !t.is_empty()).collect();
    let (have, want): (Vec<String>, Vec<String>) = (all(|lack| &lack.have), all(|lack| &lack.want));
    let shown = |words: &[String]| (!words.is_empty()).then(|| words.join(" "));
    let change = Change::new(NEXT, shown(&have).as_deref(), shown(&want).as_deref());
    let mut remove: Vec<&str> = remove.map(|word| word.text.as_str()).collect();
    remove.sort_unstable();
    remove.dedup();
    Judgement::change(format!("next boot: {why}"), vec![change], Disruption::D0, json!({ "remove": remove }))
}

/// Reports the step's arguments that remain in the menu.
fn left(own: &[Word], entries: &[BootEntry]) -> Judgement {
    let in_menu = |word: &&Word| entries.iter().any(|entry| words(entry.args.raw()).contains(word));
    let left: Vec<Word> = own.iter().filter(in_menu).cloned().collect();
    if left.is_empty() {
        return Judgement::ok("next boot: no arguments of this step", json!("none"));
    }
    let lacks: Vec<Lack> = left.iter().map(|word| Lack { have: vec![word.clone()], want: Vec::new() }).collect();
    changed(says(&lacks), &lacks, left.iter())
}

/// Returns the arguments that a change removes from the entries, from the basis of the judgement.
pub(super) fn to_remove(basis: &Value) -> Vec<String> {
    let words = basis[NEXT]["remove"].as_array().into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(args: &str, rescue: bool) -> BootEntry {
        BootEntry { title: "Linux".into(), args: args.into(), rescue }
    }

    fn wanted(args: &[&str]) -> Wanted {
        Wanted::new(args.iter().map(|w| (*w).to_owned()).collect(), Vec::new()).unwrap()
    }

    #[test]
    fn entries_for_repairs_do_not_count() {
        let entries = [entry("ro iommu=pt", false), entry("ro single", true)];
        assert_eq!(next(&wanted(&["iommu=pt"]), &entries).verdict, Verdict::Ok);
        let judged = next(&wanted(&["iommu=pt"]), &[entry("ro iommu=pt", false), entry("ro iommu=off", false)]);
        assert_eq!(judged.reason.raw(), "next boot: `iommu=off` instead of `iommu=pt` in 1 of 2 entries");
        assert_eq!(judged.basis, json!({ "remove": ["iommu=off"] }));
    }

    #[test]
    fn what_cannot_be_seen_is_unknown() {
        assert_eq!(next(&wanted(&["iommu=pt"]), &[]).verdict, Verdict::Unknown);
        let hidden = [entry("root=/dev/sda1 $kernelopts $tuned_params", false)];
        assert_eq!(next(&wanted(&["iommu=pt"]), &hidden).verdict, Verdict::Unknown);
    }
}
