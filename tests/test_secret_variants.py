"""Secrets as programs and people of many countries write them, and the lines that look alike and must stay readable."""

from __future__ import annotations

import pytest

from slurmdoctor.report.redaction import redact

PASSWORDS = ("Geheim4711x", "kX9#mQ2p", "Tr0ub4dor&3x")
HEX = "9f86d081884c7d659a2feaa0c55ad015"
KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz9xKKEY12"
TOKEN = "q7Zr2LmN8vXw4KpT6yBd3HsJ"

ANNOUNCED = r"""
pw: §
pw=§
userpw: §
smtp_pw = "§"
passwd: §
Password for kim is §
Password for kim: §
password for user kim is §
Password for 'kim@data01': §
The password was: §
THE PASSWORD IS §
wpa: psk=§
argument --password: invalid choice: '§' (choose from a, b)
{"name": "DB_PASSWORD", "value": "§"}
rabbitmqadmin -u kim -p '§' list queues
jdbc:oracle:thin:kim/§@db01:1521/x
Passwort: §
Kennwort = §
Das Passwort für kim lautet §
DB_PASSWORT=§
mot de passe : §
Mot de passe pour kim : §
Le mot de passe est §
contraseña: §
La contraseña de kim es §
contrasena=§
palabra clave: §
senha: §
a senha do kim é §
parola: §
parola d'ordine: §
wachtwoord: §
Het wachtwoord voor kim is §
lösenord: §
Lösenord för kim är §
passord: §
adgangskode: §
salasana: §
Salasana on §
hasło: §
Hasło dla kim to §
heslo: §
Heslo pro kim je §
şifre: §
jelszó: §
geslo: §
lozinka = §
пароль: §
Пароль для kim: §
ПАРОЛЬ=§
парола: §
κωδικός: §
密码: §
密码：§
密码是§
数据库密码为 §
密碼: §
口令：§
パスワード: §
パスワードは §
비밀번호: §
mật khẩu: §
รหัสผ่าน: §
كلمة المرور: §
סיסמה: §
{"senha": "§", "host": "db"}
{'contraseña': '§'}
| hasło | § |
<wachtwoord>§</wachtwoord>
train.py --passwort §
['train.py', '--senha', '§']
credentials=kim:§
password (kim): §
Password [kim]: §
пароль пользователя kim: §
pw '§'
creds: kim:§
password:⏎  §
password: |⏎  §
token: >-⏎  q7Zr2LmN8vXw4KpT6yBd3§
{⏎  "password":⏎    "§"⏎}
<password>⏎  §⏎</password>
train.py --password \⏎  §
['docker',⏎ 'login',⏎ '-p',⏎ '§']
DB_PASSWORD_B64=§
client_secret=§
secret: §
"""
COMMANDS = r"""
redis-cli -h cache -a § ping
redis-cli -h cache AUTH §
redis-cli config set requirepass §
mysql -u kim -p§ runs
['mysql', '-ukim', '-p§', 'runs']
psql postgres://kim:§@db.example.org/runs
sshpass -p § ssh node07
curl -u kim:§ https://example.org
curl --user kim:§ https://example.org
curl -ukim:§ https://example.org
http -a kim:§ https://example.org
rclone copy a b --password §
rclone obscure §
docker login -u kim -p § registry.example.org
docker login -u kim --password-stdin <<< §
podman login --password=§ registry.example.org
az login -u kim -p §
etcdctl --user root:§ get x
etcdctl --user=root:§ get x
['etcdctl', '--user', 'root:§', 'get']
influx -u kim:§ query
mc alias set m https://nas.example.org kim §
mc config host add m https://nas.example.org kim §
['mc', 'alias', 'set', 'm', 'https://nas.example.org', 'kim', '§']
kinit <<< §
kinit kim@EXAMPLE.ORG <<< '§'
sudo -S mount /mnt <<< "§"
cryptsetup open /dev/sdb x <<< §
echo § | sudo -S mount /mnt
echo -n '§' | kinit kim
printf '%s' § | docker login -u kim --password-stdin
ldapsearch -x -D cn=kim -w § -b dc=example
ldappasswd -w § cn=kim
ldapsearch -D cn=kim -w§
redis-cli -a§ ping
kinit kim <<EOF⏎§⏎EOF
openssl rsa -in k.pem -passin pass:§
openssl enc -d -pass pass:§ -in x
net use Z: \\nas\share /user:kim §
net use \\nas\share § /user:kim
net user kim § /add
smbclient //nas/x -U kim%§
rpcclient -U 'kim%§' nas
mount -t cifs //nas/x /mnt -o user=kim,password=§
mount -o username=kim,pass=§,uid=0 //nas/x /mnt
ipmitool -H bmc -U admin -P § power status
ipmitool user set password 2 §
7z x -p§ a.7z
unrar x -p§ a.rar
unzip -P § a.zip
sqlcmd -S db -U kim -P §
twine upload -u kim -p § dist/x.whl
plink -ssh -pw § kim@node07
keytool -list -storepass §
gpg --batch --passphrase § -d x.gpg
snmpwalk -v3 -u kim -A § switch1
mosquitto_pub -u kim -P § -t x
rabbitmqctl add_user kim §
rabbitmqctl change_password kim §
CREATE USER kim IDENTIFIED BY '§'
ALTER USER kim WITH PASSWORD '§'
sqlplus kim/§@db
kadmin -q "addprinc -pw § kim"
xfreerdp /u:kim /p:§ /v:host
nmcli dev wifi connect lab password §
dvc remote modify r password §
poetry config http-basic.ours kim §
wget --user=kim --password=§ https://example.org/x
lftp -u kim,§ sftp://nas
helm registry login -u kim -p § registry.example.org
someclient --user kim:§ get
"""
KEYS = f"""
aws configure set aws_secret_access_key {KEY}
('AKIA{"Q" * 15}7', '{KEY}')
AKIA{"Q" * 15}7:{KEY}
AKIA{"Q" * 15}7⏎{KEY}
('{KEY}', 'ASIA{"Q" * 15}7')
AC{HEX}:{HEX[::-1]}
account AC{HEX}, token {HEX[::-1]}
secret_{TOKEN}{TOKEN[:19]}
WANDB_API_KEY_B64={TOKEN * 2}==
wandb: ERROR API key must be 40 characters long, yours was 41: {HEX}123456789
wandb: ERROR API key must be 40 characters long, yours was: {HEX}123456789
ApiException: Invalid API key provided: {TOKEN}
AuthError: access token rejected (got '{TOKEN}')
huggingface-cli login --token {TOKEN}
wandb login {HEX}12345678
wandb login --relogin {HEX}12345678
vault login {TOKEN}
gcloud services api-keys lookup --key {TOKEN}
ngrok config add-authtoken {TOKEN}
gh auth login --with-token <<< {TOKEN}
echo {TOKEN} | gh auth login --with-token
['huggingface-cli', 'login', '--token', '{TOKEN}']
"""


def lines(table: str) -> list[str]:
    """One form a line, in which ⏎ ends a line of the log, and § is the password."""
    return [line.replace("⏎", "\n") for line in table.strip().splitlines()]


@pytest.mark.parametrize("line", [*lines(ANNOUNCED), *lines(COMMANDS)])
def test_passwords(line: str) -> None:
    for password in PASSWORDS:
        if "&" in password and ("<password>" in line or "<<<" in line or "|" in line):
            continue
        for mode in ("default", "strict"):
            shown = redact(f"RuntimeError: {line.replace('§', password)} failed", mode)
            assert password not in shown, shown
            assert password[-5:] not in shown, shown


@pytest.mark.parametrize("line", lines(KEYS))
def test_keys(line: str) -> None:
    shown = redact(f"RuntimeError: {line} failed")
    assert not [secret for secret in (HEX, HEX[::-1], KEY, TOKEN) if secret in shown.replace(f"AC{HEX}", "")], shown


HARMLESS = f"""
password: required
Password for kim is correct
Password for kim is incorrect, try again
password is case-sensitive
Passwort: falsch
Passwort ist abgelaufen
mot de passe requis
mot de passe : incorrect
contraseña: incorrecta
La contraseña es obligatoria
senha inválida
пароль: неверный
密码错误
密码: 错误次数过多
密码长度: 12345
パスワードが違います
parole: enregistrée
pw: 12 px
pw=8
pw=1024 ph=1024
pw: 14x14
mdp: Markov4
password (min 12 characters): required
password 'required' is missing
pw_conv.weight: torch.Size([64, 3, 1, 1])
token: 128
tokens: 4096
token: Ġhello
next token: 29871
key: value_proj.weight
missing key: encoder.layers.0.self_attn.k_proj.weight
unexpected key in source state_dict: model.layers.12.mlp.down_proj.weight
secret_santa.py
File "/srv/secret_santa.py", line 3, in <module>
secret: the optimizer keeps its state
docker run --user root:root image
docker run -u 1000:1000 image
podman exec --user kim:users c1 id
chown -R --from kim:users /srv
python -u train.py --lr 1e-4
python -u -m torch.distributed.run --nproc_per_node 8 train.py
srun -u python main.py
commit 3f786850e387550fdab836ed7e6dc881de23001b (HEAD -> main)
HEAD is now at 3f786850e387
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
md5 {HEX}  model.safetensors
checksum of key tensors must be {HEX}, got {HEX[::-1]}
Loading meta-llama/Llama-3.1-8B-Instruct revision 0e9e39f249a16976918f6564b8830bc894c89659
GPU-8a5bd7d1-2f1c-4c66-9d1d-0c4a3bd21e7a
MIG-8a5bd7d1-2f1c-4c66-9d1d-0c4a3bd21e7a
node1:1234:5678 [4] NCCL INFO comm 0x55d0c8a1b2c0 rank 3 nranks 16 commId 0x7a6f5e4d3c2b1a09
ncclUniqueId 0x1f2e3d4c5b6a7988
torch.Size([32000, 4096]) vs torch.Size([32064, 4096])
RuntimeError: mat1 and mat2 shapes cannot be multiplied (8192x4096 and 5120x4096)
key_padding_mask: torch.Size([8, 4096])
API key is invalid, request id: {HEX}
access token expired (2026-11-22T10-00-00)
401 Client Error: Unauthorized for url: https://huggingface.co/api/models/x/y (Request ID: Root=1-6560a1b2-0c1d2e3f4a5b6c7d8e9f0a1b)
aws configure set region eu-central-1
mc alias list
mc alias set m https://nas.example.org
vault login -method=ldap
wandb login --relogin
cat <<< hello12
bc <<< "1024*8"
echo done | tee x.log
redis-cli -h cache -p 6379 ping
mysql -h db -P 3306 runs
ssh -p 2222 node07
mkdir -p runs/12
scp -P 2222 a node07:b
git config user.name kim
net.ipv4.tcp_keepalive_time = 7200
/etc/passwd: permission denied
getpwuid(): uid not found: 50123
rank: 3 credentials: none
credential: Zero Bytes were transmitted or received
slurmctld: error: auth/munge: _decode_cred: invalid credential: expired
ACtest:{HEX}
hash_key=3f786850e387550fdab836ed7e6dc881de23001b
tokenizer.json: 7.03MB token_ids=[1, 2, 3]
special_tokens: <|im_start|> token=<|endoftext|>
vocab_key: Qwen2ForCausalLM
"""


@pytest.mark.parametrize("line", lines(HARMLESS))
def test_what_engineers_need_stays(line: str) -> None:
    assert redact(line) == line
