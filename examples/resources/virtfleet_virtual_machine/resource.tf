resource "virtfleet_virtual_machine" "web" {
  name   = "web"
  labels = { app = "web", tier = "prod" }

  cpu    = { cores = 2, mode = "host-model" }
  memory = { size = "2Gi" }

  disks = {
    # Created from an image, and removed with the VM.
    root = { pool = "vms", image = "vms/debian-12-3c14a2f6f1d0", size = "20Gi", boot_order = 1 }
    data = {
      network = { protocol = "nbd", name = "web-data", hosts = ["10.0.0.1:10809"] }
      cache   = "none"
    }
    iso = { file = "/srv/iso/debian.iso", device = "cdrom", boot_order = 2 }
  }

  interfaces = {
    lan = { bridge = "br0" } # with network = "default", a move would break its connections
  }

  wait_for = { guest_agent = true, ip_address = "lan", timeout = "3m" }

  # Prefer hosts without another web server.
  placement = { anti_affinity = { labels = { app = "web" } } }

  title       = "Web server of the shop"
  description = "Made by the team shop. Ask them before you stop it."

  # A TPM, random numbers at no more than 64 KiB a second, a reset when the guest hangs, and the device by which it reports
  # that its kernel crashed.
  devices = {
    panic    = { model = "isa" }
    tpm      = { model = "tpm-crb", version = "2.0" }
    rng      = { rate_bytes = 65536 }
    watchdog = { action = "reset" }
  }

  # Keep a guest that has crashed for an analysis, until an apply starts it again.
  platform = { events = { on_crash = "preserve" } }

  # If a change needs a restart, the apply restarts the guest.
  update_policy            = "Restart"
  termination_grace_period = "60s"
}

# Pinned to a host, off until a user starts it. It boots a kernel without a disk.
resource "virtfleet_virtual_machine" "lab" {
  name         = "lab"
  host         = "kvm1"
  run_strategy = "Manual"

  type         = "kvm"
  machine_type = "q35"
  firmware     = { type = "efi", secure_boot = false }
  cpu          = { vcpus = 1 }
  memory       = { size = "512Mi" }

  kernel = {
    path    = "/srv/boot/vmlinuz"
    initrd  = "/srv/boot/initrd.img"
    cmdline = "console=ttyS0"
  }

  # This guest has no agent, so it needs no channel for one.
  guest_agent         = { enabled = false }
  deletion_protection = true
}

# cloud-init sets it up: with a password hash that is neither in the state nor in the plan, and with defaults for all VMs of the
# team, which user data overrides. If you change user_data_wo, change user_data_wo_version too.
resource "virtfleet_virtual_machine" "bastion" {
  name       = "bastion"
  memory     = { size = "1Gi" }
  disks      = { root = { pool = "vms", image = "vms/debian-12-3c14a2f6f1d0", size = "10Gi" } }
  interfaces = { lan = { bridge = "br0" } }

  cloud_init = {
    user_data_wo = join("\n", ["#cloud-config", yamlencode({
      users = [{ name = "ops", lock_passwd = false, hashed_passwd = var.password_hash }]
    })])
    user_data_wo_version = "1"

    # With a new id, cloud-init does everything again at the next boot.
    instance_id = "bastion-1"

    vendor_data = <<-YAML
      #cloud-config
      timezone: Europe/Berlin
      package_update: true
      packages: [qemu-guest-agent]
    YAML
  }
}

variable "password_hash" {
  type      = string
  ephemeral = true
}

# Its root disk is a copy in raw format, which doesn't depend on the image. Its data disk is thick: it takes all its space
# when it is created.
resource "virtfleet_virtual_machine" "database" {
  name   = "database"
  memory = { size = "4Gi" }

  disks = {
    root = { pool = "vms", image = "vms/debian-12-3c14a2f6f1d0", clone = "full", format = "raw", boot_order = 1 }
    data = { pool = "vms", size = "100Gi", format = "raw", preallocation = "full" }
  }
}

# Its disk and the state of its TPM are encrypted. The passphrase isn't in the state: keep a copy of it. The disk is empty:
# an installer fills it.
resource "virtfleet_virtual_machine" "vault" {
  name   = "vault"
  memory = { size = "1Gi" }

  disks = {
    root = { pool = "vms", size = "20Gi", encryption = { secret = virtfleet_secret.luks.id } }
  }

  devices = { tpm = { encryption_secret = virtfleet_secret.tpm.id } }
}

resource "virtfleet_secret" "luks" {
  usage            = "volume"
  usage_id         = "vault"
  value_wo         = var.passphrase
  value_wo_version = "1"
}

resource "virtfleet_secret" "tpm" {
  usage            = "vtpm"
  usage_id         = "vault-tpm"
  value_wo         = var.passphrase
  value_wo_version = "1"
}

variable "passphrase" {
  type      = string
  ephemeral = true
}
