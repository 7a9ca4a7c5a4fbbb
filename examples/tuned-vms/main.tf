# How disks, interfaces, virtual CPUs and memory are tuned. What isn't set is decided by libvirt and QEMU; 0, "", {}, [] or
# false removes what was set. Limits, pins, weights, bandwidth and filters are changed while the VM runs. Take the parts that
# you need: the CPU numbers, NUMA nodes, devices and huge pages must be those of your hosts. VMs here that only show an
# interface have no disk.

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
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
  }
}

# Disks: an I/O thread for the database alone, and limits for the backup. The hosts have the resource partition.
resource "virtfleet_virtual_machine" "database" {
  name = "database"

  # hard_limit is the most that QEMU may use of the host's memory, with its own. With swap space, that is swap_hard_limit.
  memory = {
    size            = "16Gi"
    huge_pages      = "2Mi"
    locked          = true
    hard_limit      = "20Gi"
    swap_hard_limit = "20Gi"
  }

  # All of its disks together may write 100 MiB per second to /dev/sda.
  platform = {
    iothreads = 1
    # Its hardware clock is an hour ahead of UTC, whichever host it runs on.
    clock = { offset = "variable", adjustment = 3600 }
    resources = {
      partition     = "/machine/prod"
      blkio_weight  = 500
      blkio_devices = { "/dev/sda" = { weight = 800, write_bytes_sec = 104857600 } }
    }
  }

  # Four virtual CPUs pinned to a CPU each, QEMU's own work to others. Other processes of the host may run there, too. With
  # invtsc and no platform.clock.tsc_frequency, the VM can't be moved while it runs. cores are per socket: here two in each
  # of two dies.
  cpu = {
    sockets      = 1
    cores        = 4
    dies         = 2
    mode         = "host-passthrough"
    features     = { invtsc = "require" }
    pin          = { 0 = "2", 1 = "3", 2 = "4", 3 = "5" }
    emulator_pin = "0-1"
    iothread_pin = { 1 = "6" }
    shares       = 2048
  }

  disks = {
    root = { file = "/srv/vms/database.qcow2", boot_order = 1, discard = "unmap", detect_zeroes = "unmap" }
    data = { block = "/dev/vg0/database", cache = "none", io = "native", iothread = 1, queues = 4 }
    # Other VMs write to it, too, as a cluster does. The guest, not QEMU, handles errors of the host's disk.
    quorum = {
      block               = "/dev/vg0/quorum"
      cache               = "none"
      shareable           = true
      error_policy        = "report"
      rerror_policy       = "report"
      logical_block_size  = 4096
      physical_block_size = 4096
    }
    backup = {
      file    = "/srv/backup/database.raw"
      bus     = "scsi"
      wwn     = "5000c50015ea71ad"
      vendor  = "ACME"
      product = "Backup"
      # The guest takes it for a disk that rotates, and orders its requests.
      rotation_rate = 7200
      io_tune = {
        read_iops_sec  = 2000
        write_iops_sec = 1000
        # A request counts once for each 64 KiB of it.
        size_iops_sec   = 65536
        total_bytes_sec = 52428800
        # 200 MiB per second for 30 seconds.
        total_bytes_sec_max        = 209715200
        total_bytes_sec_max_length = 30
      }
    }
  }
}

# Two NUMA cells that the guest sees, each with the CPUs and the memory of one node of the host. The first consists of pages
# of 1 GiB. The second has smaller ones, because memory can be added to it in such steps.
resource "virtfleet_virtual_machine" "analytics" {
  name = "analytics"

  cpu = {
    sockets = 2
    cores   = 4
    mode    = "host-passthrough"
    pin     = { for vcpu in range(8) : vcpu => vcpu < 4 ? "0-15" : "16-31" }
    numa = {
      0 = { cpus = "0-3", memory = "32Gi", distances = { 1 = 21 } }
      1 = { cpus = "4-7", memory = "32Gi", distances = { 0 = 21 } }
    }
  }

  # Up to 16 GiB more in the second cell: raise "requested" while the VM runs, and lower it again.
  # A file of the host is persistent memory of the guest, in addition.
  devices = {
    virtio_mem = { burst = { size = "16Gi", requested = "4Gi", node = 1 } }
    nvdimms    = { journal = { path = "/srv/pmem/analytics", size = "4Gi", label_size = "128Ki" } }
  }

  # QEMU runs as a user of its own, and its files belong to this user.
  platform = { seclabel = { dac = { type = "static", label = "analytics:kvm", relabel = true } } }

  memory = {
    size               = "64Gi"
    max_size           = "84Gi"
    huge_pages_by_cell = { 0 = "1Gi", 1 = "2Mi" }
    numatune = {
      mode    = "strict"
      nodeset = "0-1"
      cells   = { 0 = { mode = "strict", nodeset = "0" }, 1 = { mode = "strict", nodeset = "1" } }
    }
  }
}

# A guest with deadlines: two of its virtual CPUs run before ordinary threads of their CPUs, have a part of the L3 cache for
# themselves, and use at most a share of the memory bandwidth. The host's CPU has CAT and MBA, and resctrl is mounted.
resource "virtfleet_virtual_machine" "controller" {
  name   = "controller"
  memory = { size = "2Gi" }

  # A reboot ends the VM, and the next apply starts it with a QEMU of its present version.
  # No timer and no counter that QEMU emulates interrupts the guest.
  platform = {
    events   = { on_poweroff = "destroy", on_reboot = "destroy" }
    clock    = { hpet = false, pit_tickpolicy = "discard" }
    features = { pmu = false }
  }

  cpu = {
    vcpus              = 3
    pin                = { 0 = "0-1", 1 = "8", 2 = "9" }
    scheduler          = { 1 = { type = "fifo", priority = 1 }, 2 = { type = "fifo", priority = 1 } }
    emulator_scheduler = { type = "batch" }
    cachetune          = { "1-2" = { caches = { "l3/0" = "4Mi" }, monitors = ["1-2"] } }
    memorytune         = { "1-2" = { bandwidth = { 0 = 70 } } }
  }
}

# Interfaces: a guest that isn't trusted, and one with a VLAN trunk of Open vSwitch.
resource "virtfleet_virtual_machine" "tenant" {
  name   = "tenant"
  memory = { size = "2Gi", balloon = { autodeflate = true, stats_period = 5 } }
  # Each virtual CPU gets half of a CPU of the host, and QEMU's own work a fifth: microseconds in each period.
  cpu = { vcpus = 2, quota = 50000, period = 100000, emulator_quota = 20000, emulator_period = 100000 }

  interfaces = {
    lan = {
      bridge    = "br0"
      mtu       = 1450
      queues    = 2
      isolated  = true
      filter    = { name = "clean-traffic", parameters = { IP = "192.0.2.10" } }
      bandwidth = { inbound = { average = 12500, peak = 25000, burst = 1024 }, outbound = { average = 12500 } }
    }
  }
}

resource "virtfleet_virtual_machine" "router" {
  name   = "router"
  memory = { size = "1Gi" }

  interfaces = {
    trunk = {
      bridge       = "ovsbr0"
      vlan         = { tags = [42, 43], native_tag = 42, native_mode = "untagged" }
      virtual_port = { type = "openvswitch" }
    }
    uplink = { direct = { device = "eth1", mode = "bridge" } }
  }
}
