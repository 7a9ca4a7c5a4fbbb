# Graphics cards by class: each VM is placed on a host that has one left, whichever it is.

terraform {
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = {
      uri     = "qemu+ssh://root@kvm1.example.net/system"
      devices = { gpu = ["pci:0000:65:00.0", "pci:0000:66:00.0"] }
    }
    kvm2 = {
      uri     = "qemu+ssh://root@kvm2.example.net/system"
      devices = { gpu = ["pci:0000:17:00.0"] }
    }
  }
}

resource "virtfleet_virtual_machine" "render" {
  count  = 3
  name   = "render-${count.index}"
  memory = { size = "16Gi" }

  devices = {
    host_devices = { gpu = { class = "gpu" } }
  }
}

output "cards" {
  value = {
    for vm in virtfleet_virtual_machine.render : vm.name => "${vm.current_host} ${vm.devices.host_devices.gpu.address}"
  }
}
