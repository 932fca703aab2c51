//! `nvidia-smi nvlink -s`: the NVLinks of each GPU and their speed.

/// The links of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuLinks {
    /// `GPU-` and a UUID: it identifies the GPU.
    pub uuid: String,
    /// GB/s of each link in one direction, `None` for an inactive link. Empty if the GPU has no links, or all of them are
    /// inactive: then the program prints one line instead of each link.
    pub links: Vec<Option<f64>>,
    /// A line that is neither an active nor an inactive link.
    pub odd: Option<String>,
}

/// Parses the listing: a line per GPU, `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)`, followed by its links.
pub fn parse_nvlink_status(text: &str) -> Vec<GpuLinks> {
    let mut gpus: Vec<GpuLinks> = Vec::new();
    for line in text.lines().map(str::trim) {
        match line.split_once("(UUID: ") {
            Some((before, uuid)) if before.starts_with("GPU ") => {
                let (uuid, rest) = uuid.split_once(')').unwrap_or((uuid, ""));
                gpus.push(GpuLinks { uuid: uuid.to_owned(), ..GpuLinks::default() });
                if let Some(gpu) = gpus.last_mut() {
                    gpu.push_line(rest.trim());
                }
            }
            _ => gpus.last_mut().into_iter().for_each(|gpu| gpu.push_line(line)),
        }
    }
    gpus
}

impl GpuLinks {
    fn push_line(&mut self, line: &str) {
        if line.is_empty() || is_statement_about_all_links(line) {
            return;
        }
        match line.strip_prefix("Link ").and_then(|rest| parse_link_state(rest.split_once(':')?.1.trim())) {
            Some(link) => self.links.push(link),
            None => self.odd = Some(line.to_owned()),
        }
    }
}

/// The program prints this instead of a line per link: `NVML: Unable to retrieve NVLink information as all links are
/// inActive`.
fn is_statement_about_all_links(line: &str) -> bool {
    line.to_ascii_lowercase().contains("all links are inactive")
}

fn parse_link_state(text: &str) -> Option<Option<f64>> {
    match text.strip_suffix("GB/s") {
        Some(speed) => speed.trim().parse().ok().map(Some),
        None => text.trim_matches(['<', '>']).eq_ignore_ascii_case("inactive").then_some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_counted_per_gpu() {
        let gpus = parse_nvlink_status(include_str!("../../../tests/samples/nvlink-h100-nvl.txt"));
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].uuid, "GPU-806f8ea2-6428-1096-a076-bb687fb45fb0");
        assert_eq!((gpus[0].links.len(), gpus[0].links.iter().flatten().count()), (18, 12));
        assert_eq!((gpus[0].links[0], gpus[0].links[4]), (Some(26.562), None));
        assert_eq!(gpus[1].links, gpus[0].links);
        assert!(gpus.iter().all(|gpu| gpu.odd.is_none()));
    }

    #[test]
    fn gpu_whose_links_are_all_inactive_has_none_listed() {
        // origin: field, the sentence of public reports of driver 590 and of RTX 3090 without a bridge
        let same_line =
            "GPU 0: NVIDIA H200 (UUID: GPU-a) NVML: Unable to retrieve Nvlink information as all links are inActive\n";
        let next_line = same_line.replace(") NVML", ")\nNVML");
        let expected = [GpuLinks { uuid: "GPU-a".into(), ..GpuLinks::default() }];
        assert_eq!(parse_nvlink_status(same_line), expected);
        assert_eq!(parse_nvlink_status(&next_line), expected);
        assert_eq!(parse_nvlink_status("No devices were found\n"), []);
    }

    #[test]
    fn unexpected_state_is_neither_active_nor_inactive() {
        let gpus = parse_nvlink_status("GPU 0: NVIDIA B200 (UUID: GPU-a)\n\t Link 0: <inactive>\n\t Link 1: ERR!\n");
        assert_eq!((&gpus[0].links, gpus[0].odd.as_deref()), (&vec![None], Some("Link 1: ERR!")));
    }
}
