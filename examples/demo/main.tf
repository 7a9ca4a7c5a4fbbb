# The configuration of "make demo", which sets the variables, and applies other values of host and maintenance step by step. For
# your own hosts, begin with ../first-vm.

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

# A directory that all hosts have mounted, so that VMs move without copying their disks.
resource "virtfleet_storage_pool" "vms" {
  name   = "vms"
  type   = "dir"
  target = { path = var.directory }
  shared = true
}

resource "virtfleet_image" "base" {
  name   = "base"
  pool   = virtfleet_storage_pool.vms.name
  source = var.image
}

# Without "host", the fleet places the VM, and finds it again wherever it is moved to. With "host", the VM belongs on that
# host, and moves there while it runs.
resource "virtfleet_virtual_machine" "demo" {
  name         = "demo"
  host         = var.host
  type         = "qemu" # emulated, so that the demo runs anywhere; "kvm" on your hosts
  run_strategy = "Always"
  labels       = { app = "demo" }

  cpu    = { cores = 1 }
  memory = { size = "256Mi" }
  disks = {
    root = { pool = virtfleet_storage_pool.vms.name, image = virtfleet_image.base.id, size = "1Gi", cache = "none" }
  }
  interfaces = {
    lan = { bridge = var.bridge, model = "virtio" }
  }

  cloud_init = {
    user_data = join("\n", ["#cloud-config", yamlencode({
      users = [{ name = "ops", ssh_authorized_keys = [trimspace(file(var.ssh_public_key_file))] }]
    })])
  }

  wait_for                 = { guest_agent = true, ip_address = "lan", timeout = "2m" }
  termination_grace_period = "30s"
}

# A host under maintenance is drained, and gets no VMs until this is destroyed, which brings back what was moved.
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
