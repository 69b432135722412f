#!/bin/bash
# MariaDB with an empty database slurm_acct_db for the user slurm (password: MARIADB_PASSWORD). For tests.
set -euo pipefail
data=/var/lib/mysql-data
mkdir -p $data /run/mysqld
chown mysql:mysql $data /run/mysqld
mariadb-install-db --user=mysql --datadir=$data --skip-test-db >/dev/null
cat > /tmp/init.sql <<S
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'%' IDENTIFIED BY '${MARIADB_PASSWORD:?}';
GRANT ALL ON *.* TO 'slurm'@'%';
S
exec mariadbd --no-defaults --user=mysql --datadir=$data --bind-address=0.0.0.0 --init-file=/tmp/init.sql --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 --innodb-snapshot-isolation=OFF
