# Every VM that no other policy selects: limit the bandwidth, because other traffic uses the same network.
resource "virtfleet_migration_policy" "all" {
  name              = "all"
  migration_options = { bandwidth = "500Mi" }
}

# VMs of production: more bandwidth, and guests that write too fast are slowed down.
resource "virtfleet_migration_policy" "prod" {
  name     = "prod"
  selector = { labels = { tier = "prod" } }

  migration_options = {
    bandwidth           = "2Gi"
    allow_auto_converge = true
    max_downtime        = "100ms" # shorter than QEMU's own 300 ms
  }
}

# Databases of production write faster than their memory is copied. This policy matches two labels, so it takes precedence
# over the one above. If a host fails in post-copy, the guest's memory is lost.
resource "virtfleet_migration_policy" "prod_db" {
  name     = "prod-db"
  selector = { labels = { tier = "prod", app = "db" } }

  migration_options = {
    bandwidth                  = "2Gi"
    allow_post_copy            = true
    completion_timeout_per_gib = "60s"
    progress_timeout           = "5m" # the network may be interrupted for longer than the default allows
  }
}
