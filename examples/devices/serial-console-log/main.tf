# What the guest writes to its serial port is kept in a file on the host, and virsh console still works. A second port is
# on PCI, and a third one on USB is a terminal server's. A channel leads from a program in the guest to a socket on the host.

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

resource "virtfleet_virtual_machine" "appliance" {
  name   = "appliance"
  memory = { size = "1Gi" }

  devices = {
    serials = {
      console = { type = "pty", log_file = "/var/log/libvirt/qemu/appliance-serial.log", log_append = true }
      trace   = { type = "file", path = "/var/log/libvirt/qemu/appliance-trace.log", target_type = "pci-serial" }
      menu = {
        type        = "tcp", host = "127.0.0.1", service = "4001", reconnect = 10 # reconnect: the VM starts without the server
        target_type = "usb-serial"
      }
    }
    channels = {
      control = { type = "unix", name = "org.example.control" }
    }
  }
}
