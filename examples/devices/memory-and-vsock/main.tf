# A guest that gives unused memory back at once and reports its use every five seconds, with sockets to the host that need
# no network.

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

resource "virtfleet_virtual_machine" "worker" {
  name = "worker"
  memory = {
    size    = "2Gi"
    balloon = { free_page_reporting = true, autodeflate = true, stats_period = 5 }
  }

  devices = {
    vsock = { cid = "auto" }
  }
}
