"""The engine against the NaN probe on a spread of timm's families, at the size each was made for: the slow run."""

import pytest
import torch

from pixpnet import zoo
from pixpnet.fields.verify import verify_fields

MODELS = (
    *(
        "bat_resnext26ts",
        "botnet26t_256",
        "cait_xxs24_224",
        "coat_lite_tiny",
        "coatnet_nano_rw_224",
        "convmixer_768_32",
    ),
    *(
        "convnext_atto",
        "convnextv2_atto",
        "crossvit_9_240",
        "csatv2",
        "cspresnet50",
        "davit_tiny",
        "deit_tiny_patch16_224",
    ),
    *("densenetblur121d", "dla34", "dpn68", "eca_resnext26ts", "edgenext_xx_small", "efficientformerv2_s0"),
    *("efficientnet_b0", "efficientvit_b0", "efficientvit_m0", "ese_vovnet19b_dw", "fastvit_t8", "fbnetc_100"),
    *("focalnet_tiny_srf", "gcresnet33ts", "gcvit_xxtiny", "gernet_s", "ghostnet_050", "gmlp_s16_224", "halonet26t"),
    *("hgnet_tiny", "hiera_tiny_224", "hrnet_w18_small", "inception_next_atto", "lambda_resnet26t", "lcnet_050"),
    *("levit_128s", "mambaout_femto", "maxvit_pico_rw_256", "mixer_s32_224", "mixnet_s", "mobilenetv3_small_050"),
    *("mobilevit_xxs", "mvitv2_tiny", "nest_tiny", "pit_ti_224", "poolformer_s12", "pvt_v2_b0", "regnetx_002"),
    *("repghostnet_050", "repvgg_a0", "repvit_m0_9", "res2net50_14w_8s", "resmlp_12_224", "resnest14d", "resnetblur18"),
    *("resnetv2_50", "rexnet_100", "selecsls42", "skresnet18", "starnet_s1", "swiftformer_xs"),
    *("swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256", "tiny_vit_5m_224", "tinynet_e", "tnt_s_patch16_224"),
    *("twins_svt_small", "visformer_tiny", "vit_tiny_patch16_224", "volo_d1_224", "xception41", "xcit_nano_12_p16_224"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")  # a model of another library may warn as it likes
def test_sampled_pixels_of_a_timm_model_come_out_where_the_fields_say(name: str) -> None:
    import timm

    torch.manual_seed(0)
    model = zoo.build(f"timm:{name}")
    shape = timm.get_pretrained_cfg(name).input_size
    verification = verify_fields(model, shape, 2)
    assert verification.passed, verification
