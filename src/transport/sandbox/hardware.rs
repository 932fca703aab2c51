//! Simulated hardware: boards that ship with forge, and the files that make a sandbox a server with one.

use super::sandbox_file::{SandboxFile, data_file, program_file};

/// A file of `hardware`, by its path there.
macro_rules! of_hardware {
    ($path:literal) => {
        program_file(concat!("srv/forge-hardware/", $path), include_str!(concat!("../../../hardware/", $path)))
    };
}

/// A recorded or documented output that the programs print from; `tests/fleet/profiles/README.md` lists the sources.
macro_rules! sample {
    ($folder:literal, $name:literal) => {
        data_file(
            concat!("srv/forge-hardware/samples/", $name),
            include_str!(concat!("../../../", $folder, "/", $name)),
        )
    };
}

/// Files of a sandbox with any board. The programs answer from what is loaded and installed in the sandbox.
pub(super) const HARDWARE_FILES: &[SandboxFile] = &[
    of_hardware!("power-on"),
    of_hardware!("machine"),
    of_hardware!("sandbox"),
    of_hardware!("boot"),
    of_hardware!("pack.sh"),
    of_hardware!("packages.sh"),
    of_hardware!("programs/cma_roce"),
    of_hardware!("programs/dcgmi"),
    of_hardware!("programs/dkms"),
    of_hardware!("programs/dmesg"),
    of_hardware!("programs/ethtool"),
    of_hardware!("programs/grep"),
    of_hardware!("programs/grub-probe"),
    of_hardware!("programs/ibv_devinfo"),
    of_hardware!("programs/lspci"),
    of_hardware!("programs/mlnx_qos"),
    of_hardware!("programs/modprobe"),
    of_hardware!("programs/modules-load"),
    of_hardware!("programs/nv-fabricmanager"),
    of_hardware!("programs/nvidia-imex"),
    of_hardware!("programs/nvidia-imex-ctl"),
    of_hardware!("programs/nvidia-smi"),
    of_hardware!("programs/rdma"),
    of_hardware!("programs/rmmod"),
    of_hardware!("programs/setpci"),
    of_hardware!("programs/sminfo"),
    of_hardware!("programs/systemd-detect-virt"),
    of_hardware!("stand-ins/depmod"),
    of_hardware!("stand-ins/grub-mkconfig"),
    of_hardware!("stand-ins/lsinitramfs"),
    of_hardware!("stand-ins/modinfo"),
    of_hardware!("stand-ins/modprobe"),
    of_hardware!("stand-ins/unmkinitramfs"),
    of_hardware!("stand-ins/update-grub"),
    of_hardware!("stand-ins/update-initramfs"),
    sample!("tests/samples", "dcgmi-discovery.txt"),
    sample!("tests/samples", "ibv_devinfo.txt"),
    sample!("tests/samples", "information-gsp-off.txt"),
    sample!("tests/samples", "information-gsp-on.txt"),
    sample!("tests/samples", "lspci-acs.txt"),
    sample!("tests/samples", "mlnx_qos-dscp.txt"),
    sample!("tests/samples", "nvidia-smi-q-h100-nvl.txt"),
    sample!("tests/samples", "nvidia-smi-qx-h100.xml"),
    sample!("tests/samples", "nvlink-h100.txt"),
    sample!("tests/samples", "ofed_info-doca.txt"),
    sample!("tests/samples", "ofed_info-mlnx.txt"),
    sample!("tests/samples", "sminfo.txt"),
    sample!("tests/samples", "sminfo-ibsim-nosm.txt"),
    sample!("tests/samples", "topo-a100x8.txt"),
    sample!("tests/samples", "version-open.txt"),
    sample!("tests/samples", "version-proprietary.txt"),
    sample!("tests/samples", "xid.txt"),
    sample!("tests/fleet/profiles/samples", "nvidia-smi-gpu-lost.txt"),
    sample!("tests/fleet/profiles/samples", "nvidia-smi-no-driver.txt"),
];
