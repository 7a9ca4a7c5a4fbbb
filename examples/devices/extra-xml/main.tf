# What no attribute describes: devices as libvirt's XML, and arguments for QEMU. The plan compares their meaning, not their
# text. This VM shares memory with others on its host (shmem), so it can't be moved while it runs.

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

resource "virtfleet_virtual_machine" "lab" {
  name   = "lab"
  host   = "kvm1"
  memory = { size = "1Gi" }

  extra_device_xml = {
    hub    = "<hub type='usb'/>"
    shared = <<-XML
      <shmem name="exchange">
        <model type="ivshmem-plain"/>
        <size unit="M">4</size>
      </shmem>
    XML
  }

  qemu_commandline = {
    args = ["-boot", "strict=on"]
  }
}
