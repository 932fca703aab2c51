//! `nftables`: a table of the packet filter, loaded in the kernel now and at every boot.

mod listing;
mod rules;

use self::listing::TableListings;
use crate::diag::Diag;
use crate::model::{
    BlockClass, BootUndo, DisruptionClass, GuardEffect, GuardedTables, GuardedUnit, SecretStore, UndoDeclaration,
    UndoEffect, UnitAtBoot, Value,
};
use crate::probe::{CheckProbe, Observation, Probe, UnansweredReason};
use crate::resource::shared::composite::{PartAssessments, render_part};
use crate::resource::shared::file_target::{FileBody, FileDiff, FileTarget, path_probe};
use crate::resource::shared::support::{bad_value, join_words, output, required_text, unit_state};
use crate::resource::shared::{diff, shell};
use crate::resource::system::unit::{UnitDiff, UnitResource};
use crate::resource::traits::{GuardSupport, KindTraits};
use crate::resource::{
    Action, ActionScript, Assessment, AssessmentContext, AttributeChange, ChangedPart, DeclaredResource, FieldSpec,
    FieldType, FieldValues, ProvidedItem, Resource, ResourceDiff, ResourceKind, TypedResource,
};
use crate::script::ShellFragment;
use serde::Serialize;
use serde_json::json;

pub(in crate::resource) const KIND: ResourceKind = ResourceKind {
    name: "nftables",
    summary: "A table of nftables: loaded now, and loaded at every boot.",
    example: include_str!("../../examples/nftables.yaml"),
    doc: "\
**Compared**, each separately:

- **file**: `/etc/nftables.d/forge-FAMILY-NAME.nft` (root, 0644), which replaces the table in one transaction;
- **unit**: `forge-nftables-FAMILY-NAME.service`, which loads that file at boot after `nftables.service`, and again
  whenever that service starts, restarts or reloads, because it flushes every table;
- **enabled**: whether the unit starts at boot;
- **loaded**: the table in the kernel.

The kernel stores rules, not text: `nft` prints ports, sets and addresses in its own form, which depends on its version.
forge therefore loads the declared rules into an isolated network namespace on the host and prints both tables with the
same `nft`. Counters, and the elements of sets that rules or timeouts fill (`flags dynamic`, `flags timeout`), are not
compared. A flush, a missing rule and an added rule are all detected, and the difference is shown as a diff.

Other tables are neither read nor changed. `rules` with an unmatched closing brace or an `include` are rejected before
forge contacts any host. A rule of this table cannot allow traffic that another table drops.

**Blocked**: `nft` rejects the rules, or the rules declare another table. The isolated namespace has only the interface
`lo`, and so may the host early at boot: match other interfaces with `iifname` and `oifname`, not `iif` and `oif`. Flow
tables and chains of hook `ingress` are bound to an interface and are therefore rejected. A drop-in of the unit blocks the
step, too: it can keep the table from being loaded at boot.

**A change** checks the rules with `nft -c` first and replaces the whole table atomically: no packet sees a partial
table. The table's counters restart at zero.

**Removal** deletes the table, the unit and the file.",
    fields: &[
        FieldSpec::required("name", FieldType::Name, "Name of the table."),
        FieldSpec::optional(
            "family",
            FieldType::Enum(&["inet", "ip", "ip6", "arp", "bridge"]),
            "Address family. Default `inet`: IPv4 and IPv6.",
        ),
        FieldSpec::required(
            "rules",
            FieldType::Text,
            "Content of the table, without its braces: sets, chains and rules.",
        ),
    ],
    build,
    traits: KindTraits { explains_secrets: true, guard: GuardSupport::Own, ..KindTraits::DEFAULT },
};

const FOLDER: &str = "/etc/nftables.d";

#[derive(Debug)]
struct NftablesResource {
    /// Family and name in the syntax of `nft`: `inet cluster`.
    table: String,
    /// The declared table as input of `nft -f`.
    text: String,
    target: FileTarget,
    unit: UnitResource,
    service: String,
    absent: bool,
}

fn build(fields: &FieldValues, absent: bool) -> Result<Box<dyn Resource>, Diag> {
    let name = required_text(fields, "name")?;
    let family = fields.get_text("family").unwrap_or("inet");
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(plain) {
        return Err(bad_value(format!("invalid table name `{name}`"))
            .with_field("name")
            .hint("begin the name with a letter and use letters, digits, `_` and `-`"));
    }
    let rules = if absent { fields.get_text("rules").unwrap_or_default() } else { required_text(fields, "rules")? };
    if SecretStore::mask_placeholders(rules) != rules {
        return Err(
            bad_value("rules cannot contain a secret: every user of the host can read the table").with_field("rules")
        );
    }
    rules::check_rules(rules)?;
    let table = format!("{family} {name}");
    let text = format!("table {table} {{\n{}\n}}\n", rules.trim_end());
    let file = format!("{FOLDER}/forge-{family}-{name}.nft");
    let service = format!("forge-nftables-{family}-{name}.service");
    let body = FileBody::new(format!("table {table}\ndelete table {table}\n{text}"));
    let unit = UnitResource::new_whole(&service, &render_unit(&table, &file), absent).without_drop_ins();
    let target = FileTarget { path: file, body, owner: "root".into(), group: "root".into(), mode: 0o644 };
    Ok(Box::new(NftablesResource { table, text, target, unit, service, absent }))
}

/// Returns the text of the unit. `nftables.service` flushes every table when it starts, stops and reloads, so this unit
/// follows it.
fn render_unit(table: &str, file: &str) -> String {
    format!(
        "[Unit]\nDescription=Table {table} of nftables\nDefaultDependencies=no\nWants=network-pre.target\n\
         Before=network-pre.target shutdown.target\nConflicts=shutdown.target\nAfter=nftables.service\n\
         PartOf=nftables.service\nReloadPropagatedFrom=nftables.service\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/sbin/nft -f {file}\nExecReload=/usr/sbin/nft -f {file}\n\
         [Install]\nWantedBy=sysinit.target nftables.service\n"
    )
}

/// Prints the declared table as this host's `nft` prints it, a separator, and the table in the kernel if it exists.
/// Exits 127 without `nft`, 3 if `nft` rejects the rules, 4 without a network namespace, 5 if listing fails.
const LIST_TABLES: &str = r#"command -v nft >/dev/null || exit 127
if [ -n "$nft_text" ]; then
  command -v unshare >/dev/null && unshare --net true || exit 4
  unshare --net sh -c 'printf "%s\n" "$nft_text" | nft -f - && nft -s list ruleset' || exit 3
fi
printf '\036\n'
tables=$(nft list tables) || exit 5
if printf '%s\n' "$tables" | grep -qxF "table $nft_table"; then nft -s list table $nft_table || exit 5; fi"#;

const LIST_LIMIT_S: u64 = 20;

impl NftablesResource {
    fn probe(&self) -> Probe {
        let text = if self.absent { "" } else { &self.text };
        let env = [("nft_table", self.table.as_str()), ("nft_text", text)];
        Probe::Check(Box::new(CheckProbe {
            id: format!("nftables {}", self.table),
            script: LIST_TABLES.to_owned(),
            user: None,
            cwd: None,
            env: env.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
            timeout_s: Some(LIST_LIMIT_S),
        }))
    }

    fn assess_loaded(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<TableDiff> {
        let look = match output(seen, &self.probe()) {
            Ok(look) => look,
            Err(unknown) => return Assessment::unknown(&unknown),
        };
        let unknown = |why: &str| Assessment::unknown(&UnansweredReason::new(why).with_message(look.stderr.raw()));
        match look.status {
            0 => match TableListings::parse(look.stdout.raw(), &self.table) {
                Some(listings) => self.compare_listings(&listings),
                None => unknown("the output of `nft` has an unexpected form"),
            },
            127 => self.assess_without_nft(cx),
            // The lines after the first show the position in the text.
            3 => self.assess_rejected(look.stderr.raw().trim().lines().next().unwrap_or_default(), cx),
            4 => unknown("cannot create a network namespace to check the declared rules"),
            status => unknown(&format!("listing the tables exited with {status}")),
        }
    }

    fn assess_without_nft(&self, cx: &AssessmentContext<'_>) -> Assessment<TableDiff> {
        let basis = json!({ "nft": false });
        if self.absent {
            return Assessment::ok("`nft` is not installed, so no table is loaded", basis);
        }
        match cx.predicted.and_then(|p| p.after.as_deref()) {
            Some(step) => {
                let reason = format!("`nft` is not installed yet; `{step}` runs first and may install it");
                Assessment::differs(reason, self.creation_diff(), DisruptionClass::D0, basis).mark_predicted()
            }
            None => Assessment::blocked(BlockClass::Host, "`nft` is not installed on the host", basis)
                .hint("install `nftables` with a `package` step before this one"),
        }
    }

    /// An earlier step may install the missing module or program.
    fn assess_rejected(&self, said: &str, cx: &AssessmentContext<'_>) -> Assessment<TableDiff> {
        let basis = json!({ "rejected": said });
        match cx.predicted.and_then(|p| p.after.as_deref()) {
            Some(step) => {
                let reason = format!("`nft` rejects the rules; `{step}` runs first and may change that: {said}");
                Assessment::differs(reason, self.creation_diff(), DisruptionClass::D0, basis).mark_predicted()
            }
            None => Assessment::blocked(BlockClass::Declaration, format!("`nft` rejects the rules: {said}"), basis)
                .host_hint("check the rules with `nft -c -f FILE`; match interfaces with `iifname` and `oifname`"),
        }
    }

    /// Returns the diff of a table that this host's `nft` cannot print yet.
    fn creation_diff(&self) -> TableDiff {
        TableDiff::Load { before: None, after: self.text.clone() }
    }

    fn compare_listings(&self, listings: &TableListings) -> Assessment<TableDiff> {
        if let Some(other) = &listings.other_table {
            let basis = json!({ "other": other });
            return Assessment::blocked(
                BlockClass::Declaration,
                format!("the rules declare another table: `{other}`"),
                basis,
            )
            .hint("close every brace that the rules open; declare each table in a separate step");
        }
        let basis = json!({ "loaded": listings.loaded });
        match (&listings.loaded, self.absent) {
            (None, true) => Assessment::ok(format!("no table `{}` is loaded", self.table), basis),
            (Some(loaded), true) => {
                let reason = format!("the table `{}` is loaded", self.table);
                let diff = TableDiff::Unload { before: loaded.clone() };
                Assessment::differs(reason, diff, DisruptionClass::D0, basis)
            }
            (Some(loaded), false) if *loaded == listings.declared => {
                Assessment::ok(format!("the table `{}` is loaded and its rules match", self.table), basis)
            }
            (loaded, false) => {
                let reason = match loaded {
                    None => format!("the table `{}` is not loaded", self.table),
                    Some(_) => "the loaded rules differ".to_owned(),
                };
                let diff = TableDiff::Load { before: loaded.clone(), after: listings.declared.clone() };
                Assessment::differs(reason, diff, DisruptionClass::D0, basis)
            }
        }
    }

    fn assess_enabled(&self, seen: &Observation) -> Assessment<BootDiff> {
        let unit = match unit_state(seen, &Probe::Unit { name: self.service.clone() }) {
            Ok(unit) => unit,
            Err(unknown) => return Assessment::unknown(&unknown),
        };
        let basis = json!({ "enabled": unit.file_state });
        match unit.file_state.as_str() {
            "enabled" if unit.unlinked.is_empty() => Assessment::ok("loaded at boot", basis),
            state => {
                let missing = match unit.unlinked.as_slice() {
                    [] => String::new(),
                    targets => format!(", but not started by {}", join_words(targets)),
                };
                let diff = BootDiff { before: format!("{state}{missing}") };
                Assessment::differs("not loaded at boot", diff, DisruptionClass::D0, basis)
            }
        }
    }

    fn read_former_unit(&self, seen: &Observation) -> Option<FormerUnit> {
        let unit = unit_state(seen, &Probe::Unit { name: self.service.clone() }).ok()?;
        Some(FormerUnit { enabled: unit.file_state == "enabled", active: unit.active == "active" })
    }

    fn render_apply(&self, diff: &NftablesDiff, cx: &AssessmentContext<'_>) -> ShellFragment {
        let file = diff.file.as_ref().map(|_| {
            let folder = shell::close_action(shell::open_private_action().word(FOLDER).code(MAKE_FOLDER))
                .code("[ $? -eq 0 ] &&\n");
            folder.append_fragment(self.target.render_write(cx, true, "nft -c -f \"$FORGE_FILE\""))
        });
        let loads = if diff.loaded.is_some() { "yes" } else { "no" };
        let start = shell::open_action().word(&self.service).word(&self.target.path).word(loads);
        let start = shell::close_action(start.code(START));
        let steps = file.into_iter().chain(self.render_unit_change(diff, cx)).chain([start]);
        steps.fold(ShellFragment::new().code(":\n"), run_next)
    }

    fn render_removal(&self, diff: &NftablesDiff, cx: &AssessmentContext<'_>) -> ShellFragment {
        let stop = shell::open_action().word(&self.service).word(&self.table).code(STOP);
        let file = diff.file.as_ref().map(|_| shell::remove_file(&self.target.path, cx.run, true));
        let steps = file.into_iter().chain(self.render_unit_change(diff, cx));
        steps.fold(shell::close_action(stop), run_next)
    }

    fn render_unit_change(&self, diff: &NftablesDiff, cx: &AssessmentContext<'_>) -> Option<ShellFragment> {
        diff.unit.as_ref().map(|unit| self.unit.act(unit, cx).into_script().body)
    }
}

/// Appends `one`, which runs if everything before it succeeded.
fn run_next(all: ShellFragment, one: ShellFragment) -> ShellFragment {
    all.code("[ $? -eq 0 ] &&\n").append_fragment(one)
}

const MAKE_FOLDER: &str = r#"
[ -d "$1" ] || mkdir -m 0755 -- "$1" || fail "cannot make $1"
"#;

/// Loads the table and starts the unit separately: an active unit follows `nftables.service`, and starting it again
/// does not run it again.
const START: &str = r#"
unit=$1 file=$2
[ "$3" = no ] || nft -f "$file" || fail "nft does not load $file: the table is the old one"
[ -d /run/systemd/system ] || exit 0
systemctl --quiet enable -- "$unit" || fail "cannot enable $unit"
systemctl start -- "$unit" || fail "cannot start $unit"
"#;

const STOP: &str = r#"
unit=$1 table=$2
if [ -d /run/systemd/system ] && systemctl cat -- "$unit" >/dev/null 2>&1; then
  systemctl --quiet disable -- "$unit" && systemctl stop -- "$unit" || fail "cannot stop $unit"
fi
command -v nft >/dev/null || exit 0
printf 'table %s\ndelete table %s\n' "$table" "$table" | nft -f - || fail "cannot delete the table $table"
"#;

const EXPLAIN: &[(&str, &str)] = &[
    ("does not load", "see the line in the message of `nft`; the kernel may lack the module of an expression"),
    ("Operation not supported", "the kernel lacks the module of an expression: run `modprobe nft_…`"),
    ("No space left on device", "the file system is full; the old file is unchanged"),
];

impl DeclaredResource for NftablesResource {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn title(&self) -> String {
        self.table.clone()
    }

    fn probes(&self) -> Vec<Probe> {
        let mut probes = match self.absent {
            true => vec![path_probe(&self.target.path)],
            false => vec![self.target.probe()],
        };
        probes.extend(self.unit.probes());
        probes.push(self.probe());
        probes
    }

    fn desired_value(&self) -> Value {
        match self.absent {
            true => json!({ "table": self.table, "path": self.target.path, "absent": true }),
            false => json!({ "table": self.table, "rules": self.text, "path": self.target.path }),
        }
    }

    fn provided_items(&self) -> Vec<ProvidedItem> {
        let file = (!self.absent).then(|| ProvidedItem::Path(self.target.path.clone()));
        file.into_iter().chain(self.unit.provided_items()).collect()
    }

    fn restart_input_paths(&self) -> Vec<String> {
        vec![self.target.path.clone()]
    }

    fn exclusive_claims(&self) -> Vec<(&'static str, String)> {
        let own = [(KIND.name, self.table.clone()), ("path", self.target.path.clone())];
        own.into_iter().chain(self.unit.exclusive_claims()).collect()
    }
}

/// How a table differs, in its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct NftablesDiff {
    file: Option<FileDiff>,
    /// The unit that loads the file at boot.
    unit: Option<UnitDiff>,
    enabled: Option<BootDiff>,
    loaded: Option<TableDiff>,
    /// The unit before the change; `None` if that is not known.
    former_unit: Option<FormerUnit>,
}

/// The unit that loads the table at boot, before a change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct FormerUnit {
    enabled: bool,
    active: bool,
}

/// The unit is not started at boot.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct BootDiff {
    /// The state that systemd reports; empty if it reports none.
    before: String,
}

/// How the table in the kernel differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
enum TableDiff {
    /// It is created or replaced. `before` and `after` are listings; `before` is `None` if no table is known to be loaded.
    Load { before: Option<String>, after: String },
    /// It is loaded where none is declared.
    Unload { before: String },
}

impl ResourceDiff for NftablesDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let files = [
            render_part("file", ChangedPart::File, self.file.as_ref()),
            render_part("unit", ChangedPart::Main, self.unit.as_ref()),
        ];
        let states = [
            render_part("enabled", ChangedPart::Main, self.enabled.as_ref()),
            render_part("loaded", ChangedPart::Main, self.loaded.as_ref()),
        ];
        files.into_iter().chain(states).flatten().collect()
    }
}

impl ResourceDiff for BootDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let before = Some(self.before.as_str()).filter(|state| !state.is_empty());
        vec![AttributeChange::new("enabled", before, Some("enabled"))]
    }
}

impl ResourceDiff for TableDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        vec![match self {
            Self::Load { before, after } => AttributeChange {
                diff: diff::unified_diff(before.as_deref().unwrap_or_default().as_bytes(), after.as_bytes())
                    .map(Into::into),
                ..AttributeChange::new("loaded", None, None)
            },
            Self::Unload { .. } => AttributeChange::new("loaded", Some("loaded"), None),
        }]
    }
}

impl TypedResource for NftablesResource {
    type Diff = NftablesDiff;

    fn diff(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<NftablesDiff> {
        let mut file = match self.absent {
            true => self.target.assess_absent(seen),
            false => self.target.assess(seen, cx, true),
        };
        let mut unit = self.unit.diff(seen, cx);
        let mut enabled = (!self.absent).then(|| self.assess_enabled(seen));
        let mut loaded = self.assess_loaded(seen, cx);
        let diff = NftablesDiff {
            file: file.diff.take(),
            unit: unit.diff.take(),
            enabled: enabled.as_mut().and_then(|enabled| enabled.diff.take()),
            loaded: loaded.diff.take(),
            former_unit: self.read_former_unit(seen),
        };
        let parts = PartAssessments::default().with_part("file", file).with_part("unit", unit);
        let parts = enabled.into_iter().fold(parts, |parts, enabled| parts.with_part("enabled", enabled));
        parts.with_part("loaded", loaded).combine_with(Some(diff))
    }

    fn act(&self, diff: &NftablesDiff, cx: &AssessmentContext<'_>) -> Action {
        let body = if self.absent { self.render_removal(diff, cx) } else { self.render_apply(diff, cx) };
        Action::Script(ActionScript { body, long: false, explain: EXPLAIN })
    }

    fn guard(&self, diff: &NftablesDiff) -> GuardEffect {
        // A unit that was not loaded at boot did not run: stopping it changes no table.
        let unit = |_: &BootDiff| GuardedUnit {
            name: self.service.clone(),
            acts: true,
            ran: false,
            reloads: false,
            enabled: Some(false),
        };
        GuardEffect {
            paths: self.labeled_paths(),
            units: diff.enabled.iter().map(unit).collect(),
            tables: GuardedTables::Named(self.table.clone()),
            reruns: false,
            ..GuardEffect::default()
        }
    }

    fn undo(&self, diff: &NftablesDiff) -> UndoEffect {
        let unit = diff.unit.as_ref().map(|unit| self.unit.undo(unit).paths).unwrap_or_default();
        let paths: Vec<String> = diff.file.as_ref().map(|_| self.target.path.clone()).into_iter().chain(unit).collect();
        let enabled = diff.former_unit.filter(|_| diff.enabled.is_some()).map(|former| former.enabled);
        let units = enabled.map(|enabled| UnitAtBoot { name: self.service.clone(), enabled }).into_iter().collect();
        let undo = undo_table(self, diff);
        let removes = if undo.steps.iter().any(|declared| declared.absent) { paths.clone() } else { Vec::new() };
        undo.removing(removes).with_boot(BootUndo { paths, units, ..BootUndo::default() })
    }
}

/// Exits 0 if the table `$TABLE` is loaded as `$LISTING`; if that is empty, if the table is missing.
const IS_LOADED: &str = r#"found=
tables=$(nft list tables) || exit 2
if printf '%s\n' "$tables" | grep -qxF "table $TABLE"; then found=$(nft -s list table $TABLE) || exit 2; fi
[ "$found" = "$LISTING" ]"#;

const IS_OTHER: &str = r#"found=
tables=$(nft list tables) || exit 2
if printf '%s\n' "$tables" | grep -qxF "table $TABLE"; then found=$(nft -s list table $TABLE) || exit 2; fi
[ "$found" != "$LISTING" ]"#;

/// Replaces the table in one transaction.
const LOAD: &str = r#"printf 'table %s\ndelete table %s\n%s\n' "$TABLE" "$TABLE" "$LISTING" | nft -f -"#;
const LOAD_AFTER: &str = r#"printf 'table %s\ndelete table %s\n%s\n' "$TABLE" "$TABLE" "$AFTER" | nft -f -"#;

/// Declares the table as it was before the change. A table that is new as a whole is removed.
fn undo_table(table: &NftablesResource, diff: &NftablesDiff) -> UndoEffect {
    let was_loaded = !matches!(diff.loaded, Some(TableDiff::Load { before: None, .. }));
    let creates = diff.file.as_ref().is_some_and(|file| file.is_creation());
    if creates && !was_loaded && !table.absent {
        let (family, name) = table.table.split_once(' ').unwrap_or_default();
        let fields = json!({ "name": name, "family": family, "rules": "" });
        let removed = UndoDeclaration::absent(KIND.name, fields);
        return UndoEffect::declare(vec![removed]).leaving(format!("the directory `{FOLDER}`, if it was made"));
    }
    let Some(former) = diff.former_unit else {
        return UndoEffect::irreversible("whether the table was loaded at boot is not known");
    };
    let state = if former.active { "running" } else { "stopped" };
    let fields = json!({ "name": table.service, "state": state, "enabled": former.enabled });
    // A unit that is restored starts after that; one that did not exist stops before.
    let unit_comes = matches!(&diff.unit, Some(UnitDiff::File { .. })) && former.active;
    let service = UndoDeclaration { restarts: unit_comes, ..UndoDeclaration::present("service", fields) };
    let (before, after) = match &diff.loaded {
        None => (None, None),
        Some(TableDiff::Load { before, after }) => (Some(before.clone().unwrap_or_default()), Some(after.clone())),
        Some(TableDiff::Unload { before }) => (Some(before.clone()), Some(String::new())),
    };
    if before.as_deref().is_some_and(|listing| listing.contains("dynamic") || listing.contains("timeout")) {
        return UndoEffect::irreversible("the elements that rules add to sets of the table are not kept");
    }
    let load = before.zip(after).map(|(before, after)| {
        let env = json!({ "TABLE": table.table, "LISTING": before.trim_end(), "AFTER": after.trim_end() });
        let fields = json!({
            "check": IS_LOADED, "apply": LOAD, "remove": LOAD_AFTER, "removed": IS_OTHER, "env": env,
        });
        UndoDeclaration { restarts: true, ..UndoDeclaration::present("command", fields) }
    });
    let file = diff.file.as_ref().map(|_| table.target.path.clone());
    let unit = diff.unit.as_ref().map(|unit| table.unit.undo(unit).paths).unwrap_or_default();
    UndoEffect {
        paths: file.into_iter().chain(unit).collect(),
        steps: [service].into_iter().chain(load).collect(),
        ..UndoEffect::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(fields: &[(&'static str, &str)]) -> String {
        build(&FieldValues(fields.iter().map(|(name, value)| (*name, json!(value))).collect()), false)
            .unwrap_err()
            .message
    }

    #[test]
    fn invalid_table_name_is_rejected() {
        assert_eq!(build_error(&[("name", "a b"), ("rules", "")]), "invalid table name `a b`");
        assert_eq!(build_error(&[("name", "9"), ("rules", "")]), "invalid table name `9`");
    }

    #[test]
    fn rules_that_leave_their_table_are_rejected() {
        assert_eq!(
            build_error(&[("name", "x"), ("rules", "}\nflush ruleset\ntable inet x {")]),
            "line 1 of `rules` has an unmatched closing brace"
        );
        assert_eq!(
            build_error(&[("name", "x"), ("rules", "chain a {\n}\ninclude \"/etc/x\"")]),
            "line 3 of `rules` contains an `include`"
        );
    }
}
