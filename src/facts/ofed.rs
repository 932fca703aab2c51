//! `ofed`: the RDMA stack: installed version, modules on disk for each kernel, and the loaded module.

use super::command::modinfo::{self, KernelModuleInfo};
use super::command::ofed_info;
use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::snippet_output::{
    find_section, require_success, split_sections, text_or_null, unknown_part, unparsed_answer,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::{Map, json};

const SNIPPET: &str = r#"k=$(uname -r) || exit
printf '\036kernel\t%s\n' "$k"
if command -v ofed_info >/dev/null 2>&1; then printf '\036info\n'; LC_ALL=C timeout 8 ofed_info -s 2>&1; printf '\n\036infostatus\t%s\n' "$?"; fi
if command -v dpkg-query >/dev/null 2>&1; then
printf '\n\036doca\n'; dpkg-query -W -f='${db:Status-Status} ${Version}\n' doca-ofed 2>/dev/null
elif command -v rpm >/dev/null 2>&1; then
printf '\n\036doca\n'; rpm -q --qf 'installed %{VERSION}-%{RELEASE}\n' doca-ofed 2>/dev/null | grep '^installed'
fi
if command -v modinfo >/dev/null 2>&1; then
for d in /lib/modules/*; do
[ -e "$d/modules.dep" ] || continue
printf '\n\036disk\t%s\n' "${d##*/}"; LC_ALL=C modinfo -k "${d##*/}" mlx5_core 2>/dev/null
done
else printf '\n\036lacks\n'; fi
for f in version srcversion; do
[ ! -r "/sys/module/mlx5_core/$f" ] || { printf '\n\036%s\n' "$f"; cat "/sys/module/mlx5_core/$f"; }
done
[ ! -d /sys/module/mlx5_core ] || printf '\n\036loaded\n'
[ -d /sys/module ] || printf '\n\036hidden\n'
:"#;

pub(super) const FACT: Fact = Fact {
    name: "ofed",
    doc: "The RDMA stack in addition to the kernel's own: the installed version, the origin of `mlx5_core`, and the loaded module. From \
          `ofed_info -s`, the package manager, `modinfo` and `/sys/module/mlx5_core`.",
    shape: FactShape::Map,
    fields: &[
        ("version", "`24.10-0.7.0.0`, null if none is installed"),
        ("kind", "`mlnx_ofed` or `doca`, null if none is installed"),
        ("doca", "version of the package `doca-ofed`, null without it"),
        ("origin", "origin of `mlx5_core` for the running kernel: `ofed`, `inbox` (the kernel's own), null without it"),
        (
            "kernels",
            "map from kernel release to that origin: after a kernel upgrade, its own module may be found again",
        ),
        ("loaded", "whether `mlx5_core` is loaded"),
        ("loaded_version", "version of the loaded `mlx5_core`; the kernel's own module reports none"),
        (
            "matches_disk",
            "whether the loaded module is the one on disk; null if either is missing; false means that a reload is pending",
        ),
    ],
    reads: &[
        "uname -r",
        "ofed_info -s",
        "dpkg-query -W -f='${db:Status-Status} ${Version}\\n' doca-ofed",
        "rpm -q doca-ofed",
        "/lib/modules/*/modules.dep",
        "modinfo -k RELEASE mlx5_core",
        "/sys/module/mlx5_core/{version,srcversion}",
    ],
    alike: &[
        compare_value("version"),
        compare_value("kind"),
        compare_value("doca"),
        compare_value("origin"),
        compare_value("loaded"),
        compare_value("loaded_version"),
        compare_value("matches_disk"),
    ],
    snippet: FactSnippet { name: "ofed", snippet: SNIPPET, timeout_s: 20, device: false, quick: false, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    let running =
        find_section(&parts, "kernel").ok_or_else(|| unparsed_answer("the kernel's release", output))?.field_at(1);
    let line = |name: &str| find_section(&parts, name).and_then(|part| part.first_line());
    let info = find_section(&parts, "info").map(|part| ofed_info::parse_ofed_info(part.body));
    let (version, kind) = match &info {
        None => (Value::Null, Value::Null),
        Some(Some(stack)) => (stack.version.as_str().into(), stack.kind.into()),
        Some(None) => {
            let why = || {
                unknown_part(format!(
                    "`ofed_info -s` failed or has an unexpected format (status {})",
                    info_status(&parts)
                ))
            };
            (why(), why())
        }
    };
    let modules = parts.iter().filter(|part| part.name() == "disk");
    let modules: Vec<(&str, KernelModuleInfo)> =
        modules.filter_map(|part| Some((part.field_at(1), modinfo::parse_modinfo(part.body)?))).collect();
    let own = modules.iter().find(|(kernel, _)| *kernel == running).map(|(_, module)| module);
    let kernels: Map<String, Value> =
        modules.iter().map(|(kernel, module)| ((*kernel).to_owned(), json!(module.origin()))).collect();
    let lacks = || find_section(&parts, "lacks").map(|_| unknown_part("`modinfo` is missing"));
    let hidden = || find_section(&parts, "hidden").map(|_| unknown_part("`/sys/module` does not exist"));
    let same = own.and_then(|module| Some(module.srcversion.as_deref()? == line("srcversion")?));
    Ok(json!({
        "version": version,
        "kind": kind,
        "doca": text_or_null(line("doca").and_then(|line| line.strip_prefix("installed "))),
        "origin": lacks().unwrap_or_else(|| json!(own.and_then(KernelModuleInfo::origin))),
        "kernels": lacks().unwrap_or_else(|| kernels.into()),
        "loaded": hidden().unwrap_or_else(|| find_section(&parts, "loaded").is_some().into()),
        "loaded_version": hidden().unwrap_or_else(|| text_or_null(line("version"))),
        "matches_disk": hidden().or_else(lacks).unwrap_or_else(|| json!(same)),
    }))
}

fn info_status<'a>(parts: &[super::snippet_output::OutputSection<'a>]) -> &'a str {
    find_section(parts, "infostatus").map_or("unknown", |part| part.field_at(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, parse_stdout};

    #[test]
    fn kernel_without_installed_ofed_stack_is_detected() {
        // origin: reconstructed after a node whose kernel was upgraded
        let text = expand_separators(
            "@@kernel\t5.15.0-131-generic\n@@info\nMLNX_OFED_LINUX-24.10-0.7.0.0:\n\n@@infostatus\t0\n\n@@doca\n\n\
             @@disk\t5.15.0-130-generic\nfilename: /lib/modules/5.15.0-130-generic/updates/dkms/mlx5_core.ko\nsrcversion: AAAA\n\n\
             @@disk\t5.15.0-131-generic\nfilename: /lib/modules/5.15.0-131-generic/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko\nsrcversion: BBBB\n\n\
             @@srcversion\nAAAA\n\n@@loaded\n",
        );
        let expected = json!({
            "version": "24.10-0.7.0.0", "kind": "mlnx_ofed", "doca": null, "origin": "inbox",
            "kernels": {"5.15.0-130-generic": "ofed", "5.15.0-131-generic": "inbox"},
            "loaded": true, "loaded_version": null, "matches_disk": false,
        });
        assert_eq!(parse_stdout(&FACT, &text), Ok(expected));
    }

    #[test]
    fn host_without_ofed_stack_reports_null_fields() {
        let fact = parse_stdout(&FACT, &expand_separators("@@kernel\t6.1.0\n\n@@doca\n")).expect("is known");
        let expected = json!({"version": null, "kind": null, "doca": null, "origin": null, "kernels": {}, "loaded": false, "loaded_version": null, "matches_disk": null});
        assert_eq!(fact, expected);
        let hidden = parse_stdout(&FACT, &expand_separators("@@kernel\t6.1.0\n@@hidden\n")).expect("is known");
        assert_eq!(hidden["loaded"]["unknown"], "`/sys/module` does not exist");
        let odd = parse_stdout(&FACT, &expand_separators("@@kernel\t6.1.0\n@@info\nodd\n@@infostatus\t1\n"))
            .expect("is known");
        assert_eq!(odd["version"]["unknown"], "`ofed_info -s` failed or has an unexpected format (status 1)");
    }
}
