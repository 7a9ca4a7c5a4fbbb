# Interfaces whose packets don't pass through the host's bridges: a vDPA device of the host, a port of a switch in user space,
# such as Open vSwitch with DPDK, and passt, which needs no network of the host. Before you apply: the vDPA device exists ("vdpa dev show" lists it), and the switch
# has created the port's socket or waits for it.

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

# A VM with a vDPA device can't be moved while it runs.
resource "virtfleet_virtual_machine" "appliance" {
  name    = "appliance"
  profile = "linux"
  memory  = { size = "4Gi" }
  disks   = { root = { file = "/srv/vms/appliance.qcow2" } }

  interfaces = {
    fast = {
      vdpa   = "/dev/vhost-vdpa-0"
      driver = { packed = true }
    }
  }
}

# The switch reads and writes the packets in the VM's memory, so the memory is shared. QEMU opens the socket (server), and
# the port of Open vSwitch has the type dpdkvhostuserclient: this way, the switch can be restarted while the VM runs.
resource "virtfleet_virtual_machine" "firewall" {
  name    = "firewall"
  profile = "linux"
  cpu     = { vcpus = 4, mode = "host-passthrough" }
  memory  = { size = "4Gi", shared = true, huge_pages = "2Mi" }
  disks   = { root = { file = "/srv/vms/firewall.qcow2" } }

  interfaces = {
    outside = {
      vhostuser = { path = "/run/openvswitch/firewall-outside.sock", mode = "server" }
      queues    = 4
      # A switch that forwards packets can't use merged ones.
      driver = {
        rx_queue_size  = 1024, tx_queue_size = 1024
        host_offloads  = { gso = false, tso4 = false, tso6 = false }
        guest_offloads = { tso4 = false, tso6 = false }
      }
    }
    inside = {
      vhostuser = { path = "/run/openvswitch/firewall-inside.sock", mode = "server" }
      queues    = 4
    }
  }
}

# passt is a process on the host that carries the guest's connections. The host requires the package passt, and libvirt 9.0.0
# with support for it. It forwards port 2022 of the host to the guest's SSH server, and
# port 5353 to its name server.
resource "virtfleet_virtual_machine" "builder" {
  name       = "builder"
  profile    = "linux"
  memory     = { size = "2Gi" }
  disks      = { root = { file = "/srv/vms/builder.qcow2" } }
  interfaces = { out = { user = true, backend = { type = "passt", tcp_ports = ["2022:22"], udp_ports = ["5353:53"] } } }
}
