# Firmware that is chosen by hand, what the guest reads about its hardware, and texts that it reads from QEMU's firmware
# (/sys/firmware/qemu_fw_cfg/by_name). Without firmware.loader libvirt chooses the firmware for type and secure_boot.

terraform {
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
  }
}

resource "virtfleet_virtual_machine" "appliance" {
  name   = "appliance"
  memory = { size = "2Gi" }

  firmware = {
    type           = "efi"
    loader         = "/usr/share/OVMF/OVMF_CODE_4M.fd"
    nvram_template = "/usr/share/OVMF/OVMF_VARS_4M.fd"
    boot_menu      = { enabled = true, timeout = 3000 }
  }

  platform = {
    smbios = {
      mode       = "sysinfo"
      system     = { manufacturer = "ACME", product = "Appliance", serial = "A-1001" }
      bios       = { vendor = "ACME", version = "2.1" }
      base_board = { manufacturer = "ACME", serial = "B-1001" }
      chassis    = { asset = "rack 7" }
    }
    fw_cfg       = { "opt/com.example/role" = "gateway" }
    fw_cfg_files = { "opt/com.example/host-release" = "/etc/os-release" }
  }
}

# Memory that the host can't read (AMD SEV-SNP), with firmware that keeps no variables, which libvirt chooses. It can't be
# moved while it runs. On Intel the type is "tdx", on IBM Z "s390-pv", both without a policy.
resource "virtfleet_virtual_machine" "confidential" {
  name   = "confidential"
  memory = { size = "4Gi" }

  firmware = { type = "efi", stateless = true }
  platform = { launch_security = { type = "sev-snp", policy = "0x30000" } }
}
