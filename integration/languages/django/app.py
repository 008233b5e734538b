"""A Django service behind `retrysafe proxy`, in one file."""

import json
import os
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, models, transaction
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from waitress import serve

database = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("SECRET_KEY", "for development only"),
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": database.hostname,
            "PORT": database.port,
            "NAME": database.path[1:],
            "USER": database.username,
            "PASSWORD": database.password,
        }
    },
)
django.setup()


class Charge(models.Model):
    customer = models.TextField()
    amount = models.BigIntegerField()

    class Meta:
        app_label = "shop"
        db_table = "charges"
        managed = False


@csrf_exempt
@require_POST
def create_charge(request):
    order, lease = json.loads(request.body), request.headers["Retrysafe-Lease"]
    if order["amount"] <= 0:
        return JsonResponse({"error": "amount must be positive"}, status=400)

    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT retrysafe.hold(%s)", [lease])  # nothing commits without complete
        charge = Charge.objects.create(customer=order["customer"], amount=order["amount"])
        answer = json.dumps({"id": charge.id, "amount": charge.amount})
        cursor.execute("SELECT retrysafe.complete(%s, %s, 201)", [lease, answer])
    # The block has ended: charge and answer are committed together.
    return HttpResponse(answer, content_type="application/json", status=201)


urlpatterns = [path("charges", create_charge)]

if __name__ == "__main__":
    serve(get_wsgi_application(), listen="127.0.0.1:" + os.environ.get("PORT", "3000"))
