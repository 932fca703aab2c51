//! `{gpu_memory}` in the program of a test: the options with which perftest transfers the memory of the GPU next to an
//! adapter (GPUDirect RDMA).

use crate::config::TestPrograms;
use crate::facts::Facts;
use crate::model::Value;

/// Replaced by the options, which differ between hosts and adapters.
const PLACEHOLDER: &str = "{gpu_memory}";

/// The facts that decide about the options.
const FACTS: [&str; 2] = ["topology", "gdr"];

/// Returns the facts that a test needs for its options.
pub(super) fn list_option_facts(programs: &TestPrograms) -> &'static [&'static str] {
    let needs = programs.list_programs().into_iter().flatten().any(|word| word == PLACEHOLDER);
    if needs { &FACTS } else { &[] }
}

/// Replaces the placeholder for one host and adapter.
///
/// # Errors
/// The host cannot transfer the memory of a GPU with this adapter, or that is not known: the reason.
pub(super) fn add_gpu_memory(words: &[String], facts: &Facts, rail: Option<&str>) -> Result<Vec<String>, String> {
    if !words.iter().any(|word| word == PLACEHOLDER) {
        return Ok(words.to_vec());
    }
    let options = list_options(facts, rail.ok_or("the test names no adapter (`{device}`)")?)?;
    let replace = |word: &String| if word == PLACEHOLDER { options.clone() } else { vec![word.clone()] };
    Ok(words.iter().flat_map(replace).collect())
}

/// `CUDA_DEVICE_ORDER=PCI_BUS_ID` in the environment of the program gives GPUs the numbers of `nvidia-smi topo`.
fn list_options(facts: &Facts, rail: &str) -> Result<Vec<String>, String> {
    let near = read_fact(facts, "topology")?.get("near").and_then(Value::as_array).map(Vec::as_slice);
    let pairs = near.ok_or("no NVIDIA driver is loaded")?.iter().filter_map(Value::as_str);
    let mut of_rail = pairs.filter_map(|pair| pair.split_once('=').filter(|(_, device)| *device == rail));
    let number = of_rail.next().and_then(|(gpu, _)| gpu.strip_prefix("GPU"));
    let number = number.ok_or_else(|| format!("no GPU is below the PCIe switch of `{rail}`"))?;
    let mut options = vec![format!("--use_cuda={number}")];
    match read_fact(facts, "gdr")?.get("path").and_then(Value::as_str) {
        Some("dmabuf") => options.push("--use_cuda_dmabuf".to_owned()),
        Some(_) => {}
        None => return Err("adapters cannot access the memory of GPUs (fact `gdr`)".to_owned()),
    }
    Ok(options)
}

/// Returns the value of a fact.
///
/// # Errors
/// The fact is unknown or was not read: the reason.
pub(super) fn read_fact<'f>(facts: &'f Facts, name: &str) -> Result<&'f Value, String> {
    match facts.0.get(name) {
        Some(Ok(value)) => Ok(value),
        Some(Err(why)) => Err(format!("fact `{name}` is unknown: {}", why.why)),
        None => Err(format!("fact `{name}` was not read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::UnansweredReason;
    use serde_json::json;

    fn facts(topology: Value, path: Value) -> Facts {
        let gdr = json!({ "path": path });
        Facts([("topology".to_owned(), Ok(topology)), ("gdr".to_owned(), Ok(gdr))].into())
    }

    fn expand(facts: &Facts, rail: &str) -> Result<String, String> {
        let words = ["ib_write_bw", "-d", "{device}", "{gpu_memory}", "-F"].map(str::to_owned);
        add_gpu_memory(&words, facts, Some(rail)).map(|words| words.join(" "))
    }

    #[test]
    fn each_adapter_gets_the_gpu_next_to_it() {
        let topology = json!({ "near": ["GPU0=mlx5_0", "GPU3=mlx5_2"] });
        let host = facts(topology.clone(), json!("dmabuf"));
        let expected = "ib_write_bw -d {device} --use_cuda=3 --use_cuda_dmabuf -F";
        assert_eq!(expand(&host, "mlx5_2"), Ok(expected.to_owned()));
        let host = facts(topology.clone(), json!("peermem"));
        assert_eq!(expand(&host, "mlx5_0"), Ok("ib_write_bw -d {device} --use_cuda=0 -F".to_owned()));
        assert_eq!(expand(&host, "mlx5_5"), Err("no GPU is below the PCIe switch of `mlx5_5`".to_owned()));
        let none = expand(&facts(topology, Value::Null), "mlx5_0");
        assert_eq!(none, Err("adapters cannot access the memory of GPUs (fact `gdr`)".to_owned()));
        assert_eq!(
            expand(&facts(Value::Null, json!("dmabuf")), "mlx5_0"),
            Err("no NVIDIA driver is loaded".to_owned())
        );
    }

    #[test]
    fn unknown_facts_are_named_and_other_tests_need_none() {
        let unknown = Err(UnansweredReason::new("`nvidia-smi` did not end"));
        let host = Facts([("topology".to_owned(), unknown)].into());
        let expected = "fact `topology` is unknown: `nvidia-smi` did not end";
        assert_eq!(expand(&host, "mlx5_0"), Err(expected.to_owned()));
        let plain = vec!["ib_write_bw".to_owned()];
        assert_eq!(add_gpu_memory(&plain, &host, None), Ok(plain.clone()));
        assert_eq!(list_option_facts(&TestPrograms::Host(plain)), [""; 0]);
        assert_eq!(list_option_facts(&TestPrograms::Host(vec![PLACEHOLDER.to_owned()])), FACTS);
    }
}
