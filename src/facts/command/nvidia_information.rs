//! `/proc/driver/nvidia/gpus/*/information`: the loaded driver's data about one GPU.

use super::split_key_value;

/// The contents of one GPU's file. A value that the driver does not know yet is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuInformation {
    /// The product's name: `NVIDIA RTX A6000`.
    pub model: Option<String>,
    /// `GPU-` and a UUID: it identifies the GPU, also after a move to another host.
    pub uuid: Option<String>,
    /// The version of the video BIOS.
    pub vbios: Option<String>,
    /// The firmware of the system processor as written: a version, or `N/A` if it runs none. Some branches label it
    /// `GSP Firmware`.
    pub firmware: Option<String>,
}

/// Parses the file. Before the driver has initialized the GPU, it writes question marks for unknown values.
pub fn parse_gpu_information(text: &str) -> GpuInformation {
    let value = |labels: &[&str]| {
        let (_, value) = text.lines().filter_map(split_key_value).find(|(key, _)| labels.contains(key))?;
        (!value.is_empty() && !value.contains("??")).then(|| value.to_owned())
    };
    let raw = text.lines().filter_map(split_key_value).find(|(key, _)| matches!(*key, "GPU Firmware" | "GSP Firmware"));
    GpuInformation {
        model: value(&["Model"]).filter(|model| model != "Unknown"),
        uuid: value(&["GPU UUID"]),
        vbios: value(&["Video BIOS"]),
        firmware: raw.map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gsp_firmware_version_is_optional() {
        let off = parse_gpu_information(include_str!("../../../tests/samples/information-gsp-off.txt"));
        assert_eq!(off.firmware.as_deref(), Some("N/A"));
        assert_eq!(off.uuid.as_deref(), Some("GPU-97e0449e-f914-403f-3976-34c746092b9c"));
        let on = parse_gpu_information(include_str!("../../../tests/samples/information-gsp-on.txt"));
        assert_eq!((on.firmware.as_deref(), on.model.as_deref()), (Some("580.173.02"), Some("NVIDIA RTX A6000")));
        assert_eq!(
            parse_gpu_information("GSP Firmware:    580.105.08\n").firmware.as_deref(),
            Some("580.105.08"),
            "the README's label"
        );
        assert_eq!(
            parse_gpu_information("GPU UUID: \t GPU-????????-????\nModel: Unknown\n"),
            GpuInformation::default()
        );
    }
}
