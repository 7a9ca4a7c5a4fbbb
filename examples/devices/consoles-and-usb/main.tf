# A console on virtio whose log is kept in a file on the host, a port into which a client redirects a USB device, a
# smartcard that the viewer of the screen lends, and room for twenty more disks and interfaces while the VM runs.

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

resource "virtfleet_virtual_machine" "desktop" {
  name   = "desktop"
  memory = { size = "4Gi" }

  platform = { hotplug_ports = 20 }

  devices = {
    consoles = {
      kernel = { type = "pty", log_file = "/var/log/libvirt/qemu/desktop-kernel.log", log_append = true }
    }
    graphics  = { type = "spice" }
    smartcard = { mode = "passthrough" }
    redirdevs = {
      stick = { type = "tcp", host = "10.0.0.20", service = "4000" } # usbredirserver on the client
    }
  }
}
