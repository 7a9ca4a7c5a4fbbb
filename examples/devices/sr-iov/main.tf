# A network card of the host (a virtual function of SR-IOV) that the VM has for itself. While the VM moves, the guest uses
# the other interface of the pair. On the target, the same address must be free.

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

resource "virtfleet_virtual_machine" "router" {
  name    = "router"
  profile = "linux"
  memory  = { size = "2Gi" }
  disks   = { root = { file = "/srv/vms/router.qcow2" } }

  interfaces = {
    fast = {
      hostdev = "0000:03:10.0"
      mac     = "52:54:00:12:34:56"
      vlan    = { tags = [42] }
      teaming = { type = "transient", persistent = "slow" }
    }
    slow = {
      bridge  = "br0"
      mac     = "52:54:00:12:34:56"
      teaming = { type = "persistent" }
    }
  }
}
