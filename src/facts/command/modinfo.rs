//! `modinfo MODULE`: a kernel module on disk.

use super::split_key_value;

/// A module on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelModuleInfo {
    /// `/lib/modules/…/updates/dkms/mlx5_core.ko`
    pub file: String,
    /// The version that its authors gave it; many modules have none.
    pub version: Option<String>,
    /// The license: `GPL`, `Dual MIT/GPL`, `NVIDIA`.
    pub license: Option<String>,
    /// A digest of its sources: equal sources give equal text. Modules without a version may have none.
    pub srcversion: Option<String>,
    /// The modules that it needs; the kernel loads them first.
    pub depends: Vec<String>,
}

impl KernelModuleInfo {
    /// Returns whether it came with the distribution's kernel (`inbox`, also if it is built in) or was built separately
    /// (`ofed`, for the modules of the RDMA stack).
    pub fn origin(&self) -> Option<&'static str> {
        if self.file.contains("/updates/") || self.file.contains("/extra/") || self.file.contains("/weak-updates/") {
            return Some("ofed");
        }
        (self.file.contains("/kernel/") || self.file == "(builtin)").then_some("inbox")
    }

    /// Returns the flavor of an `nvidia` module, by its license.
    pub fn flavor(&self) -> Option<&'static str> {
        match self.license.as_deref()? {
            "NVIDIA" => Some("proprietary"),
            text if text.contains("GPL") => Some("open"),
            _ => None,
        }
    }
}

/// Parses the listing; `None` if it contains no module.
pub fn parse_modinfo(text: &str) -> Option<KernelModuleInfo> {
    let value = |name: &str| {
        text.lines().filter_map(split_key_value).find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let list = |text: String| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Some(KernelModuleInfo {
        file: value("filename")?,
        version: value("version"),
        license: value("license"),
        srcversion: value("srcversion"),
        depends: value("depends").map(list).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_gives_origin_and_license_gives_flavor() {
        // origin: reconstructed after kmod's modinfo.c and the paths of MLNX_OFED and of distributions
        let of = |file: &str| {
            parse_modinfo(&format!("filename:       {file}\nlicense:        Dual BSD/GPL\n")).and_then(|m| m.origin())
        };
        assert_eq!(of("/lib/modules/5.15.0-130-generic/updates/dkms/mlx5_core.ko"), Some("ofed"));
        assert_eq!(of("/lib/modules/5.14.0-427.el9.x86_64/extra/mlnx-ofa_kernel/drivers/mlx5_core.ko"), Some("ofed"));
        assert_eq!(
            of("/lib/modules/5.15.0-131-generic/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko"),
            Some("inbox")
        );
        assert_eq!(of("(builtin)"), Some("inbox"));
        assert_eq!(of("/opt/mlx5_core.ko"), None);
        let flavor = |license: &str| {
            parse_modinfo(&format!("filename: /x.ko\nlicense:        {license}\n")).and_then(|m| m.flavor())
        };
        assert_eq!(
            (flavor("NVIDIA"), flavor("Dual MIT/GPL"), flavor("odd")),
            (Some("proprietary"), Some("open"), None)
        );
        assert_eq!(parse_modinfo("modinfo: ERROR: Module nvidia not found.\n"), None);
    }

    #[test]
    fn module_dependencies_are_parsed_as_a_list() {
        let module = parse_modinfo("filename: /x.ko\ndepends:        nvidia,ib_core\n").expect("is one");
        assert_eq!(module.depends, ["nvidia", "ib_core"]);
        assert!(parse_modinfo("filename: /x.ko\ndepends:        \n").expect("is one").depends.is_empty());
    }
}
