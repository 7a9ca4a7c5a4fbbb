# A guest whose kernel crashes says so by its panic device, and one that hangs is reset by its watchdog. Memory is written
# to a file on the host before the guest starts again.

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

resource "virtfleet_virtual_machine" "server" {
  name   = "server"
  memory = { size = "2Gi" }

  devices = {
    panic    = { model = "isa" }
    watchdog = { action = "reset" }
  }

  # With vmcoreinfo, the tools that read the file find their way in the memory of any kernel.
  platform = { events = { on_crash = "coredump-restart" }, features = { vmcoreinfo = true } }
}
