terraform {
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = { for name, uri in var.hosts : name => { uri = uri } }

  ssh = {
    private_key_file = var.private_key_file
    known_hosts_file = var.known_hosts_file
    config_file      = "none"
  }
}

# As long as no host is named, the fleet places the machine, and finds it again wherever it is moved to. Once one is
# named, the machine is there: it moves while it runs.
resource "virtfleet_virtual_machine" "demo" {
  name         = "demo"
  host         = var.host
  type         = "qemu" # emulated, so that the demo runs anywhere; "kvm" on your hosts
  run_strategy = "Always"
  labels       = { app = "demo" }

  cpu    = { cores = 1 }
  memory = { size = "128Mi" }
  kernel = {
    path    = var.kernel
    initrd  = var.initrd
    cmdline = var.cmdline
  }

  # A disk that all hosts share, and a network that spans them: what a machine needs to be moved while it runs.
  disks = {
    data = {
      network = { protocol = "nbd", name = var.disk.name, hosts = [var.disk.server] }
      cache   = "none"
    }
  }
  interfaces = {
    lan = { bridge = var.bridge, model = "virtio" }
  }

  guest_agent              = { enabled = true }
  wait_for                 = { guest_agent = true, ip_address = "lan", timeout = "2m" }
  termination_grace_period = "30s"
}

# A host under maintenance is emptied, and takes no machines until this is destroyed, which brings back what was moved.
resource "virtfleet_host_maintenance" "demo" {
  count = var.maintenance == null ? 0 : 1

  host    = var.maintenance
  restore = true
  reason  = "a demonstration"

  depends_on = [virtfleet_virtual_machine.demo]
}

# What the guest says of itself, through its agent.
data "virtfleet_guest_info" "demo" {
  virtual_machine_id = virtfleet_virtual_machine.demo.id
}
