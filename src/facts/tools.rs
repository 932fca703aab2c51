//! `tools`: the available programs.

use super::comparison_rules::compare_entries;
use super::fact::{Fact, FactShape};
use super::snippet_output::require_success;
use crate::model::Value;
use crate::probe::{FactSnippet, ProbeOutput, UnansweredReason};
use serde_json::Map;

const SNIPPET: &str = r"for t in apt-get bash chronyc containerd crictl curl dcgmi dkms dnf docker dpkg-query dracut gcc \
  getent git grubby helm ibstat ibv_devinfo ip ipmitool kubeadm kubectl kubelet lspci lsinitramfs mlxconfig mokutil \
  modinfo modprobe mst nvidia-ctk nvidia-smi ofed_info openssl perl python3 rdma rpm runuser setpriv sha256sum sinfo \
  stat sudo systemctl systemd-run tar timedatectl update-initramfs wget; do
if command -v $t >/dev/null 2>&1; then printf '%s\tyes\n' $t; else printf '%s\tno\n' $t; fi
done";

pub(super) const FACT: Fact = Fact {
    name: "tools",
    doc: "The available programs: a map from the name of each program that forge or its recipes may use to true or \
          false. They are searched in root's standard path.",
    shape: FactShape::Value,
    fields: &[],
    reads: &["the directories of PATH"],
    alike: &[compare_entries("")],
    snippet: FactSnippet { name: "tools", snippet: SNIPPET, timeout_s: 5, device: false, quick: true, builtin: false },
    parse,
};

fn parse(output: &ProbeOutput) -> Result<Value, UnansweredReason> {
    let rows = require_success(output)?.lines().filter_map(|line| line.split_once('\t'));
    let tools: Map<String, Value> = rows.map(|(name, there)| (name.to_owned(), Value::from(there == "yes"))).collect();
    match tools.is_empty() {
        true => Err(UnansweredReason::new("no program is in the answer")),
        false => Ok(Value::Object(tools)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::snippet_output::testing::{expect_unknown, parse_stdout};
    use serde_json::json;

    #[test]
    fn presence_is_reported_per_program() {
        // origin: field, Debian 12, shortened
        assert_eq!(parse_stdout(&FACT, "bash\tyes\nnvidia-smi\tno\n"), Ok(json!({"bash": true, "nvidia-smi": false})));
        assert_eq!(expect_unknown(&FACT, 0, ""), "no program is in the answer");
    }
}
