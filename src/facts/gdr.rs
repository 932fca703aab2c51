//! `gdr`: how adapters access the memory of GPUs.

use super::command::{modinfo, nvidia_version};
use super::comparison_rules::compare_value;
use super::fact::{Fact, FactShape};
use super::gpu_table;
use super::snippet_output::{
    find_section, require_success, split_sections, text_or_null, unknown_part, unparsed_answer,
};
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::json;

const SNIPPET: &str = r#"[ -d /sys/module ] || { printf '/sys/module is not there\n' >&2; exit 1; }
k=$(uname -r) || exit
printf '\036kernel\t%s\n' "$k"
[ ! -e /proc/driver/nvidia/version ] || { printf '\036version\n'; cat /proc/driver/nvidia/version; }
for m in nvidia_peermem nv_peer_mem; do [ ! -d "/sys/module/$m" ] || printf '\n\036loaded\t%s\n' "$m"; done
[ ! -r /sys/module/nvidia_peermem/version ] || { printf '\n\036peermem\n'; cat /sys/module/nvidia_peermem/version; }
[ ! -e /sys/module/ib_core/holders/nvidia_peermem ] || printf '\n\036holds\n'
for f in nv_mem nv_mem_nc; do [ ! -e "/sys/kernel/mm/memory_peers/$f/version" ] || printf '\n\036registered\n'; done
if command -v modinfo >/dev/null 2>&1; then printf '\n\036disk\n'; LC_ALL=C modinfo -k "$k" nvidia_peermem 2>/dev/null
else printf '\n\036lacks\n'; fi
for d in /sys/bus/pci/devices/*; do
[ -e "$d/vendor" ] || continue
read -r v <"$d/vendor"; read -r c <"$d/class"
case $v,$c in 0x10de,0x0300*|0x10de,0x0302*) read -r e <"$d/device"; printf '\n\036gpu\t%s\n' "$e" ;; esac
done
:"#;

pub(super) const FACT: Fact = Fact {
    name: "gdr",
    doc: "How RDMA adapters access the memory of GPUs (GPUDirect RDMA): by the module `nvidia_peermem` or by dma-buf. From \
          `/sys/module`, `/sys/kernel/mm/memory_peers`, `modinfo` and the loaded driver.",
    shape: FactShape::Map,
    fields: &[
        (
            "path",
            "`peermem` (loaded and registered), `dmabuf` (possible), or null: then traffic is copied through main memory",
        ),
        (
            "peermem",
            "`loaded`, `version` of the loaded module, `registered` (whether the RDMA stack accepted it), `disk` (its version on disk, null \
             without it) and `built_for_rdma` (whether it was built against an RDMA stack: otherwise it cannot be loaded)",
        ),
        ("legacy", "whether the old module `nv_peer_mem` is loaded"),
        (
            "dmabuf",
            "whether the open flavor is loaded, the kernel is 5.12 or later, and every GPU has a system processor",
        ),
    ],
    reads: &[
        "uname -r",
        "/proc/driver/nvidia/version",
        "/sys/module/{nvidia_peermem,nv_peer_mem}",
        "/sys/module/nvidia_peermem/version",
        "/sys/module/ib_core/holders/nvidia_peermem",
        "/sys/kernel/mm/memory_peers/{nv_mem,nv_mem_nc}/version",
        "modinfo -k RELEASE nvidia_peermem",
        "/sys/bus/pci/devices/*/{vendor,class,device}",
    ],
    alike: &[
        compare_value("path"),
        compare_value("peermem.loaded"),
        compare_value("peermem.version"),
        compare_value("peermem.registered"),
        compare_value("legacy"),
        compare_value("dmabuf"),
    ],
    snippet: FactSnippet { name: "gdr", snippet: SNIPPET, timeout_s: 15, device: false, quick: true, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let parts = split_sections(require_success(output)?);
    let kernel = find_section(&parts, "kernel").ok_or_else(|| unparsed_answer("the kernel's release", output))?;
    let told = find_section(&parts, "version")
        .map(|part| nvidia_version::parse_driver_version(part.body).map(|loaded| loaded.open));
    let loaded = |name: &str| parts.iter().any(|part| part.name() == "loaded" && part.field_at(1) == name);
    let gpus: Vec<_> = parts
        .iter()
        .filter(|part| part.name() == "gpu")
        .map(|part| gpu_table::find_gpu_model(part.field_at(1)))
        .collect();
    let able = !gpus.is_empty() && gpus.iter().all(|gpu| gpu.is_none_or(|gpu| gpu.has_gsp));
    let flavor = || unknown_part("the loaded driver does not report its flavor");
    let dmabuf = match told {
        Some(None) => flavor(),
        open => (open == Some(Some(true)) && able && is_at_least(kernel.field_at(1), (5, 12))).into(),
    };
    let registered = find_section(&parts, "registered").is_some() || find_section(&parts, "holds").is_some();
    let peermem = loaded("nvidia_peermem");
    let path = match dmabuf.as_bool() {
        _ if peermem && registered => "peermem".into(),
        Some(true) => "dmabuf".into(),
        Some(false) => Value::Null,
        None => flavor(),
    };
    let (disk, built) = disk_values(&parts);
    Ok(json!({
        "path": path,
        "peermem": {
            "loaded": peermem, "version": text_or_null(find_section(&parts, "peermem").and_then(|part| part.first_line())),
            "registered": registered, "disk": disk, "built_for_rdma": built,
        },
        "legacy": loaded("nv_peer_mem"),
        "dmabuf": dmabuf,
    }))
}

fn disk_values(parts: &[super::snippet_output::OutputSection<'_>]) -> (Value, Value) {
    if find_section(parts, "lacks").is_some() {
        return (unknown_part("`modinfo` is missing"), unknown_part("`modinfo` is missing"));
    }
    match find_section(parts, "disk").and_then(|part| modinfo::parse_modinfo(part.body)) {
        None => (Value::Null, Value::Null),
        Some(module) => {
            (text_or_null(module.version.as_deref()), module.depends.iter().any(|name| name == "ib_core").into())
        }
    }
}

/// Returns whether a kernel release is `version` or later.
fn is_at_least(release: &str, version: (u64, u64)) -> bool {
    let mut numbers = release.split(['.', '-', '+']).map(|part| part.parse::<u64>().ok());
    matches!((numbers.next().flatten(), numbers.next().flatten()), (Some(major), Some(minor)) if (major, minor) >= version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expand_separators, parse_stdout};

    fn parse_text(text: &str) -> Value {
        parse_stdout(&FACT, &expand_separators(text)).expect("is known")
    }

    #[test]
    fn gdr_path_depends_on_loaded_modules() {
        // origin: reconstructed after the kernel's sysfs and the driver's README
        let peermem = parse_text(
            "@@kernel\t5.15.0-130-generic\n@@version\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  560.35.03  x\n@@loaded\tnvidia_peermem\n\
                          @@peermem\n560.35.03\n@@registered\n@@disk\nfilename: /x.ko\nversion: 560.35.03\ndepends: nvidia,ib_core\n@@gpu\t0x2330\n",
        );
        assert_eq!(peermem["path"], "peermem");
        assert_eq!(
            peermem["peermem"],
            json!({"loaded": true, "version": "560.35.03", "registered": true, "disk": "560.35.03", "built_for_rdma": true})
        );
        let open = "@@version\nNVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  x\n@@disk\n";
        assert_eq!(parse_text(&format!("@@kernel\t5.15.0-130-generic\n{open}@@gpu\t0x2330\n"))["path"], "dmabuf");
        assert_eq!(
            parse_text(&format!("@@kernel\t5.4.0-200-generic\n{open}@@gpu\t0x2330\n"))["path"],
            Value::Null,
            "an old kernel"
        );
    }

    #[test]
    fn driver_without_flavor_leaves_gdr_path_unknown() {
        let odd = parse_text("@@kernel\t5.15.0\n@@version\nodd\n@@disk\n@@gpu\t0x2330\n");
        assert_eq!(odd["path"]["unknown"], "the loaded driver does not report its flavor");
        assert_eq!(odd["dmabuf"]["unknown"], "the loaded driver does not report its flavor");
    }

    #[test]
    fn peermem_built_without_rdma_stack_is_detected() {
        let gdr = parse_text(
            "@@kernel\t5.15.0\n@@disk\nfilename: /x.ko\nversion: 560.35.03\ndepends: nvidia\n@@gpu\t0x2330\n",
        );
        assert_eq!((&gdr["peermem"]["built_for_rdma"], &gdr["path"]), (&json!(false), &Value::Null));
    }
}
