# A network card of the host (a virtual function of SR-IOV) that a VM has for itself: the one at an address, or any free one
# of a card, by a network. While a VM moves, the guest uses the other interface of the pair. On the target of the router, the same
# address must be free. Before you apply: the virtual functions exist (sriov_numvfs of the card).

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

# A network that hands out the virtual functions of a card. libvirt takes a free one when a VM starts, and detaches it from the
# host's driver.
resource "virtfleet_network" "functions" {
  name    = "functions"
  forward = { mode = "hostdev", physical_function = "eth1", managed = true }
  vlan    = { tags = [42] }
}

resource "virtfleet_virtual_machine" "gateway" {
  name    = "gateway"
  profile = "linux"
  memory  = { size = "2Gi" }
  disks   = { root = { file = "/srv/vms/gateway.qcow2" } }

  interfaces = {
    fast = {
      network = virtfleet_network.functions.name
      mac     = "52:54:00:12:34:57"
      teaming = { type = "transient", persistent = "slow" }
    }
    slow = {
      bridge  = "br0"
      mac     = "52:54:00:12:34:57"
      teaming = { type = "persistent" }
    }
  }
}
