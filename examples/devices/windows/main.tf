# What Windows expects of its hardware: local time, Hyper-V enlightenments and their clock, a TPM and secure boot.

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

resource "virtfleet_virtual_machine" "windows" {
  name     = "windows"
  cpu      = { cores = 4 }
  memory   = { size = "8Gi" }
  firmware = { type = "efi", secure_boot = true }

  devices = {
    tpm    = { model = "tpm-crb", version = "2.0" }
    video  = { model = "bochs" }
    inputs = { tablet = { type = "tablet" } }
  }

  platform = {
    clock = {
      offset         = "localtime"
      rtc_tickpolicy = "catchup"
      hpet           = false
      hypervclock    = true
    }
    hyperv = {
      mode        = "custom"
      relaxed     = true
      vapic       = true
      spinlocks   = 8191
      vpindex     = true
      runtime     = true
      synic       = true
      stimer      = true
      frequencies = true
      tlbflush    = true
      ipi         = true
    }
  }
}
